// @ts-check
// A text with variables, in a form: plain text with real line ends, its placeholders marked, not replaced. It keeps no
// history of its own: what is typed is told, and what it is told to show it takes over.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import * as cm from "../vendor/editor.js";
import { useTold } from "../shared/asked.js";
import { ask } from "../shared/server.js";
import { clock, counted } from "../shared/words.js";
import { distance } from "./completion.js";
import { overLines, rootIn, tooltips } from "./editor_look.js";

/**
 * @typedef {import("./completion.js").Choice} Choice
 * @typedef {{name: string, look: string}} Look of a placeholder
 * @typedef {{value: string, label: string, about: string, writable: boolean, lookOf: (name: string) => string,
 *   choices: (closed: boolean) => Choice[], changed: (text: string) => void, id: string}} Props
 *   `lookOf`: the class of a placeholder; `about`: id of what describes it
 */

const hues = Object.fromEntries(
  Array.from({ length: 8 }, (_, at) => [
    `.ph-e${at + 1}`,
    { color: `var(--e${at + 1})`, backgroundColor: `color-mix(in srgb, var(--e${at + 1}) 11%, transparent)` },
  ]),
);
const theme = cm.EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--panel)", font: "var(--code)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { font: "var(--code)", overflow: "auto", maxHeight: "calc(24 * 1.55em + 16px)" },
  ":host([data-large]) & .cm-scroller": { maxHeight: "none" },
  ".cm-content": { caretColor: "var(--ink)", padding: "8px 0" },
  ".cm-line": { padding: "0 10px" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".ph": { borderRadius: "4px", padding: "1px 2px", margin: "0 -2px" },
  ".ph-var": { color: "var(--accent)", backgroundColor: "color-mix(in srgb, var(--accent) 11%, transparent)" },
  ".ph-wrong": {
    color: "var(--wait)",
    textDecoration: "underline wavy 1px",
    textUnderlineOffset: "4px",
    textDecorationSkipInk: "none",
  },
  ...hues,
  ...tooltips,
});

const PLACEHOLDER = /\{+\s*([A-Za-z_][\w-]*)[^{}\n]*\}+/g;
/** What the form puts there is nobody's typing. */
const told = /** @type {cm.AnnotationType<boolean>} */ (cm.Annotation.define());
const SHOWN_CHOICES = 12;

/** The names of the placeholders of a text, each once. @param {string} text */
export const namesIn = (text) => [...new Set([...text.matchAll(PLACEHOLDER)].map((match) => match[1]))];

/** @param {Props} props */
export function TextField(props) {
  const { value, id } = props;
  const host = useRef(/** @type {any} */ (null));
  const view = useRef(/** @type {cm.EditorView | null} */ (null));
  const pending = useRef(/** @type {string[]} */ ([])); // told, and not seen in the document yet
  const now = useRef(props);
  now.current = {
    ...props,
    changed(text) {
      pending.current.push(text);
      props.changed(text);
    },
  };
  // At once: who adds a field gives it the focus in the next frame.
  useLayoutEffect(() => {
    const root = rootIn(host.current);
    view.current = new cm.EditorView({
      root,
      parent: root,
      state: cm.EditorState.create({ doc: value, extensions: extensions(now) }),
    });
    host.current.focusAt = (/** @type {number} */ at) => {
      view.current?.focus();
      const anchor = Math.min(at, view.current?.state.doc.length ?? 0);
      view.current?.dispatch({ selection: { anchor }, scrollIntoView: true });
    };
    return () => view.current?.destroy();
  }, []);
  useLayoutEffect(() => {
    const at = pending.current.lastIndexOf(value);
    pending.current = at < 0 ? [] : pending.current.slice(at + 1);
    show(view.current, at < 0 ? value : null);
  });
  return html`<div class="textfield" id=${id} ref=${host} data-writable=${props.writable}></div>`;
}

/**
 * Takes over what the document holds: only what differs. Placeholders are marked anew in any case.
 * @param {cm.EditorView | null} view
 * @param {string | null} value null: what is shown
 */
function show(view, value) {
  const before = view?.state.doc.toString();
  if (!view || before === undefined || value === null || before === value) return view?.dispatch({});
  const most = Math.min(before.length, value.length);
  let from = 0;
  while (from < most && before[from] === value[from]) from++;
  let end = 0;
  while (end < most - from && before.at(-1 - end) === value.at(-1 - end)) end++;
  const insert = value.slice(from, value.length - end);
  view.dispatch({
    changes: { from, to: before.length - end, insert },
    annotations: told.of(true),
    ...(view.hasFocus ? { selection: { anchor: from + insert.length }, scrollIntoView: true } : {}),
  });
}

/** @param {{current: Props}} now */
function extensions(now) {
  const { writable, label, about } = now.current;
  return [
    theme,
    cm.EditorView.lineWrapping,
    cm.EditorState.readOnly.of(!writable),
    cm.EditorState.lineSeparator.of("\n"),
    cm.EditorView.contentAttributes.of({
      "aria-label": `${label}. ${about}`,
      "aria-readonly": String(!writable),
      "aria-multiline": "true",
      tabindex: "0",
    }),
    marks(now),
    overLines,
    cm.autocompletion({
      override: [completed(now)],
      icons: false,
      activateOnTyping: writable,
      maxRenderedOptions: SHOWN_CHOICES,
    }),
    cm.EditorView.domEventHandlers({
      beforeinput: (event) => event.inputType.startsWith("history") && (event.preventDefault(), true),
    }),
    cm.EditorView.updateListener.of((/** @type {any} */ { docChanged, transactions, state }) => {
      const isTold = transactions.some((/** @type {any} */ one) => one.annotation(told));
      if (docChanged && !isTold) now.current.changed(state.doc.toString());
    }),
    cm.keymap.of([...cm.completionKeymap, ...cm.defaultKeymap]),
  ];
}

/** Placeholders, marked where they stand. @param {{current: Props}} now */
const marks = (now) =>
  cm.ViewPlugin.define(
    (view) => {
      const made = (/** @type {cm.EditorView} */ { state: { doc } }) => {
        const found = [...doc.toString().matchAll(PLACEHOLDER)];
        return cm.Decoration.set(
          found.map((match) => {
            const from = /** @type {number} */ (match.index);
            const look = now.current.lookOf(match[1]);
            return cm.Decoration.mark({ class: `ph ${look}` }).range(from, from + match[0].length);
          }),
        );
      };
      const plugin = {
        decorations: made(view),
        update(/** @type {any} */ change) {
          plugin.decorations = made(change.view);
        },
      };
      return plugin;
    },
    { decorations: (plugin) => plugin.decorations },
  );

/** @param {{current: Props}} now */
const completed = (now) => (/** @type {cm.CompletionContext} */ context) => {
  const open = context.matchBefore(/\{\w*/);
  if (!open || !now.current.writable) return null;
  const typed = open.text.slice(1);
  const isClosed = context.state.sliceDoc(context.pos, context.pos + 1) === "}";
  const options = now.current
    .choices(isClosed)
    .sort((a, b) => distance(typed, a.label) - distance(typed, b.label))
    .map(({ label, detail, info, insert }) => ({ label, detail, info: info || undefined, apply: insert }));
  return { from: open.from + 1, options, filter: false };
};

// --- a text with its variables filled in, from the last run of the file. Source: spec workbench.md 1 ---

/**
 * @typedef {{name: string, words: string, length: string, means?: string}} Row a variable, how its value begins, its
 *   length, and what it is
 */

/**
 * What stands below a text: what its placeholders gave in the last run, and the whole text filled in.
 * @param {{name: string, text: string, hints: import("./form.js").Hints}} props `name`: of the field
 */
export function RunTexts({ name, text, hints: { given, filling, index } }) {
  const [open, turn] = useState(false);
  useEffect(() => turn(false), [text, filling?.id]);
  const rows = namesIn(text).flatMap((one) => {
    const gave = given(one);
    const means = meant(one, index);
    return gave || means ? [{ name: one, words: "", length: "", means, ...gave }] : [];
  });
  const outputs = html`<${Values} label="What the placeholders are, or gave in the last run" rows=${rows} />`;
  if (!filling || !text.includes("{")) return outputs;
  return html`<p class="acts"><button type="button" class="small" aria-expanded=${open}
      onClick=${() => turn(!open)}>Preview</button></p>
    ${open ? html`<${Filled} name=${name} text=${text} filling=${filling} outputs=${outputs} index=${index} />`
      : outputs}`;
}

/** What Help says of a variable; an output says itself what it is.
 * @param {string} name @param {import("./form.js").Hints["index"]} index */
const meant = (name, { variables }) =>
  /^agent\d/.test(name) ? "" : (variables.find((one) => one.name === name)?.description ?? "");

/**
 * @param {{name: string, text: string, outputs: unknown, index: import("./form.js").Hints["index"],
 *   filling: NonNullable<import("./form.js").Hints["filling"]>}} props `outputs`: shown where there is nothing else
 */
function Filled({ name, text, filling: { id, at, path, n, body }, outputs, index }) {
  const { data, error } = useTold(id, (signal) => ask("dry-run", { method: "POST", body: body(), signal }));
  const node = data?.nodes.find((/** @type {any} */ one) => !one.depth && one.workflow === path && one.number === n);
  const why = error?.message ?? data?.error ?? "this node is not reached.";
  if (!node)
    return html`<p class="why" role="status">${data || error ? `No preview: ${why}` : "loading"}</p>${outputs}`;
  const rows = namesIn(text)
    .filter((one) => node.variables[one])
    .map((one) => {
      const { start, tokens } = node.variables[one];
      return { name: one, words: start, means: meant(one, index), length: counted(tokens, "token") };
    });
  return html`<div class="preview"><p class="why">Filled from the <a href=${`#/runs/${encodeURIComponent(id)}`}>run of
      ${` ${clock(at)}`}</a>. Variables that are no outputs are computed from its messages, as of now.</p>
    <pre class="pre" tabindex="0" aria-label="The text, filled">${String(node.fields[name] ?? "")}</pre>
    <${Values} label="What the variables are" rows=${rows} /></div>`;
}

/** @param {{label: string, rows: Row[]}} props */
const Values = ({ label, rows }) =>
  rows.length > 0 &&
  html`<ul class="given" role="list" aria-label=${label}>
    ${rows.map(({ name, words, length, means }) => html`<li key=${name}><code title=${name}>${name}</code>
      ${words && html`<span>${words}</span>`}${length && html`<small>${length}</small>`}
      ${means && html`<small class="means">${means}</small>`}</li>`)}</ul>`;
