// @ts-check
// The text of a file: CodeMirror. Problems come from the server alone; names and words from the index of Help.
import { html, render, useEffect, useRef } from "../vendor/preact.js";
import * as cm from "../vendor/editor.js";
import { completionsAt, describedAt } from "./completion.js";
import { look, overLines, rootIn } from "./editor_look.js";
import { layoutOf } from "./json_tree.js";
import { changedAt, rangeOf } from "./text_places.js";
import { listed } from "../shared/words.js";

/**
 * @typedef {import("./workflow_types.js").Problem} Problem
 * @typedef {import("./completion.js").Known} Known
 * @typedef {{text: () => string, set: (text: string) => void, format: () => boolean, go: (problem: Problem) => void,
 *   next: () => void, wrap: (wraps: boolean) => void,
 *   edit: (steps: import("./json_edit.js").Change[][], event: string) => void,
 *   back: (forth: boolean) => number | null,
 *   show: (lines: [number, number] | null) => void, underline: (problems: Problem[], checked: string) => void}} Hand
 *   what others do with the editor; `edit`: several steps that one undo takes back; `back`: undo or redo, and where the
 *   text changed, null: nothing did
 */

// --- the lines of the node that is chosen in the picture, marked ---

/** @typedef {{from: number, to: number} | null} Lines counted from 1 */

const choice = /** @type {cm.StateEffectType<Lines>} */ (cm.StateEffect.define());
const chosen = cm.Decoration.line({ class: "chosen" });

const chosenLines = /** @type {cm.StateField<cm.DecorationSet>} */ (
  cm.StateField.define({
    create: () => cm.Decoration.none,
    update(lines, { effects, changes, state }) {
      const told = effects.find((effect) => effect.is(choice));
      return told ? marked(state.doc, told.value) : lines.map(changes);
    },
    provide: (field) => cm.EditorView.decorations.from(field),
  })
);

/** @param {any} doc @param {Lines} lines */
function marked(doc, lines) {
  if (!lines) return cm.Decoration.none;
  const count = Math.max(0, Math.min(lines.to, doc.lines) - lines.from + 1);
  return cm.Decoration.set(Array.from({ length: count }, (_, at) => chosen.range(doc.line(lines.from + at).from)));
}

/**
 * Marks lines; the cursor goes to them when it stands elsewhere.
 * @param {cm.EditorView} view
 * @param {[number, number] | null} lines
 */
function chooseLines(view, lines) {
  const { doc, selection } = view.state;
  const [from, to] = lines ?? [0, 0];
  if (!lines || from > doc.lines) return view.dispatch({ effects: choice.of(null) });
  const effects = [choice.of({ from, to })];
  const cursor = doc.lineAt(selection.main.head).number;
  if (from <= cursor && cursor <= to) return view.dispatch({ effects });
  const anchor = doc.line(from).from;
  view.dispatch({
    selection: { anchor },
    effects: [...effects, cm.EditorView.scrollIntoView(anchor, { y: "start", yMargin: 60 })],
  });
}

// --- the editor ---

/** Rows of the list of completions, which moves with the choice instead of scrolling: the focus stays in the text. */
const SHOWN_CHOICES = 12;
const SEVERITY = /** @type {const} */ ({ error: "error", warning: "warning", note: "info" });

/**
 * @typedef {{text: string, problems: Problem[], checked: string, writable: boolean, label: string, known: Known | null,
 *   wraps: boolean,
 *   chosen: [number, number] | null,
 *   typed: (text: string) => void, atLine: (line: number) => void, help: (page: string) => void, hand: {current: Hand |
 *   null}}} Props
 * `text`: what it begins with; `checked`: the text to which the problems belong; `chosen`: lines that are marked
 * @typedef {{current: Props}} Now the props as they are now: the editor is made once
 */

/** @param {Props} props */
export function TextEditor(props) {
  const { text, problems, checked, chosen, hand, wraps } = props;
  const host = useRef(/** @type {HTMLElement | null} */ (null));
  const now = useRef(props);
  now.current = props;
  useEffect(() => {
    const root = rootIn(host.current);
    const view = new cm.EditorView({
      root,
      parent: root,
      state: cm.EditorState.create({ doc: text, extensions: extensions(now) }),
    });
    hand.current = handOf(view);
    return () => {
      view.destroy();
      hand.current = null;
    };
  }, []);
  useEffect(() => hand.current?.wrap(wraps), [wraps]);
  useEffect(() => hand.current?.show(chosen), [chosen?.[0], chosen?.[1]]);
  useEffect(() => hand.current?.underline(problems, checked), [problems, checked]);
  return html`<div class="texthost" ref=${host}></div>`;
}

/** @param {cm.EditorView} view @returns {Hand} */
function handOf(view) {
  const text = () => view.state.doc.toString();
  return {
    text,
    set: (wanted) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: wanted } }),
    format() {
      const changes = layoutOf(text());
      if (changes) view.dispatch({ changes, userEvent: "format" });
      return changes !== null;
    },
    go(problem) {
      const { from } = rangeOf(text(), problem);
      view.focus();
      view.dispatch({ selection: { anchor: from }, effects: cm.EditorView.scrollIntoView(from, { y: "center" }) });
    },
    edit(steps, event) {
      const [first, ...others] = steps.filter((changes) => changes.length);
      if (!first) return;
      const specs = others.map((changes) => ({ changes, sequential: true }));
      view.dispatch({ changes: first, userEvent: event }, ...specs);
    },
    back(forth) {
      const before = text();
      if (!(forth ? cm.redo : cm.undo)(view)) return null;
      return changedAt(before, text());
    },
    next() {
      view.focus();
      cm.nextDiagnostic(view);
    },
    wrap: (wraps) => view.dispatch({ effects: wrapping.reconfigure(wraps ? cm.EditorView.lineWrapping : []) }),
    show: (lines) => chooseLines(view, lines),
    underline(problems, checked) {
      if (text() !== checked) return;
      view.dispatch(
        cm.setDiagnostics(
          view.state,
          problems.map((problem) => ({
            ...rangeOf(checked, problem),
            severity: SEVERITY[problem.level],
            message: problem.message,
          })),
        ),
      );
    },
  };
}

const wrapping = new cm.Compartment();

/** @param {Now} now */
function extensions(now) {
  const { writable, label } = now.current;
  return [
    look(label, writable),
    wrapping.of([]),
    cm.foldGutter(),
    cm.highlightSpecialChars(),
    cm.highlightActiveLine(),
    cm.highlightActiveLineGutter(),
    cm.history(),
    cm.drawSelection(),
    cm.bracketMatching(),
    cm.closeBrackets(),
    cm.indentOnInput(),
    cm.indentUnit.of("  "),
    cm.search({ top: true }),
    cm.highlightSelectionMatches(),
    cm.autocompletion({
      override: [completed(now)],
      icons: false,
      activateOnTyping: writable,
      maxRenderedOptions: SHOWN_CHOICES,
    }),
    aboutCursor,
    cm.hoverTooltip((/** @type {cm.EditorView} */ view, /** @type {number} */ at) => tooltip(described(view, at, now))),
    overLines,
    chosenLines,
    cm.EditorView.updateListener.of((/** @type {any} */ { view, state, docChanged, selectionSet }) => {
      if (docChanged) now.current.typed(state.doc.toString());
      if (view.hasFocus && (docChanged || selectionSet))
        now.current.atLine(state.doc.lineAt(state.selection.main.head).number);
    }),
    cm.keymap.of([
      { key: "F1", run: (/** @type {cm.EditorView} */ view) => (tellAbout(view, now), true), preventDefault: true },
      {
        key: "Escape",
        run: (/** @type {cm.EditorView} */ view) =>
          view.state.field(aboutCursor) !== null && (view.dispatch({ effects: showAbout.of(null) }), true),
      },
      ...cm.closeBracketsKeymap,
      ...cm.completionKeymap,
      ...cm.searchKeymap,
      ...cm.foldKeymap,
      ...cm.historyKeymap,
      ...cm.defaultKeymap,
    ]),
  ];
}

/** @param {cm.EditorView} view @param {number} at @param {Now} now */
const described = (view, at, now) => now.current.known && describedAt(view.state.doc.toString(), at, now.current.known);

const showAbout = /** @type {cm.StateEffectType<cm.Tooltip | null>} */ (cm.StateEffect.define());
/** What F1 tells of the cursor's place, until something moves. */
const aboutCursor = /** @type {cm.StateField<cm.Tooltip | null>} */ (
  cm.StateField.define({
    create: () => /** @type {cm.Tooltip | null} */ (null),
    update(tip, { effects, docChanged, selection }) {
      const told = effects.find((effect) => effect.is(showAbout));
      return told ? told.value : docChanged || selection ? null : tip;
    },
    provide: (field) => cm.showTooltip.from(field),
  })
);

/**
 * Shows and says what stands under the cursor; where there is nothing to say, Help opens. Until the words have come
 * nothing happens.
 * @param {cm.EditorView} view
 * @param {Now} now
 */
function tellAbout(view, now) {
  if (!now.current.known) return;
  const about = described(view, view.state.selection.main.head, now);
  if (!about) return now.current.help("");
  const said = cm.EditorView.announce.of(listed(about.title, about.kind, about.description));
  view.dispatch({ effects: [showAbout.of(tooltip(about)), said] });
}

/** @param {Now} now */
function completed(now) {
  return (/** @type {cm.CompletionContext} */ context) => {
    const { known, writable } = now.current;
    if (!known || !writable) return null;
    const text = context.state.doc.toString();
    const before = text[context.pos - 1] ?? "";
    if (!context.explicit && !/[\w"{.-]/.test(before)) return null;
    const found = completionsAt(text, context.pos, known);
    if (!found) return null;
    const typed = found.typed.toLowerCase();
    const fits = found.choices.filter(({ label }) => label.toLowerCase().includes(typed));
    const shown = fits.length || !context.explicit ? fits : found.choices;
    return shown.length ? { from: found.from, to: found.to, filter: false, options: shown.map(optionOf) } : null;
  };
}

/** @param {import("./completion.js").Choice} choice */
function optionOf({ label, detail, info, insert, cursor }) {
  return {
    label,
    detail,
    info: info || undefined,
    apply(
      /** @type {cm.EditorView} */ view,
      /** @type {unknown} */ option,
      /** @type {number} */ from,
      /** @type {number} */ to,
    ) {
      view.dispatch({
        changes: { from, to, insert },
        selection: { anchor: from + cursor },
        userEvent: "input.complete",
      });
      if (/["{[]$/.test(insert.slice(0, cursor)) && cursor < insert.length) cm.startCompletion(view);
    },
  };
}

/** @param {ReturnType<typeof describedAt>} about @returns {cm.Tooltip | null} */
function tooltip(about) {
  if (!about) return null;
  const { from, to, title, kind, usual, description, page } = about;
  return {
    pos: from,
    end: to,
    above: true,
    create() {
      const dom = document.createElement("div");
      dom.className = "about";
      render(
        html`<div><b>${title}</b><span class="dim">  ${listed(kind, usual && `default ${usual}`)}</span></div>
        <p>${description}</p>${page && html`<a href=${`#/help/${page}`}>Help</a>`}`,
        dom,
      );
      return { dom };
    },
  };
}
