// @ts-check
// The text of a file: CodeMirror in a shadow root, where it uses constructed style sheets, so that the page's
// Content Security Policy stays strict. Problems come from the server alone; names and words from the index of Help.
import { html, useEffect, useRef } from "./vendor/preact.js";
import * as cm from "./vendor/editor.js";
import { completionsAt, describedAt } from "./completion.js";
import { chooseLines, look } from "./editor_look.js";
import { formatted } from "./json_format.js";
import { rangeOf } from "./text_places.js";

/**
 * @typedef {import("./workflow_types.js").Problem} Problem
 * @typedef {import("./completion.js").Known} Known
 * @typedef {{text: () => string, set: (text: string) => void, format: () => boolean, go: (problem: Problem) => void, next: () => void,
 *   show: (lines: [number, number] | null) => void, focus: () => void}} Hand what others do with the editor
 */

/** Rows of the list of completions, which moves with the choice instead of scrolling: the focus stays in the text. */
const SHOWN_CHOICES = 12;
const SEVERITY = /** @type {const} */ ({ error: "error", warning: "warning", note: "info" });

/**
 * @param {{text: string, problems: Problem[], checked: string, writable: boolean, label: string, known: Known | null, chosen: [number, number] | null,
 *   typed: (text: string) => void, atLine: (line: number) => void, save: () => void, help: (page: string) => void, hand: {current: Hand | null}}} props
 * `text`: what it begins with; `checked`: the text to which the problems belong; `chosen`: lines that are marked
 */
export function TextEditor(props) {
  const host = useRef(/** @type {HTMLElement | null} */ (null));
  const now = useRef(props);
  const view = useRef(/** @type {cm.EditorView | null} */ (null));
  now.current = props;
  useEffect(() => {
    const element = /** @type {HTMLElement} */ (host.current);
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const made = new cm.EditorView({ root, parent: root, state: cm.EditorState.create({ doc: props.text, extensions: extensions(now) }) });
    view.current = made;
    props.hand.current = handOf(made, now);
    return () => {
      made.destroy();
      props.hand.current = null;
    };
  }, []);
  const { chosen } = props;
  useEffect(() => props.hand.current?.show(chosen), [chosen?.[0], chosen?.[1]]);
  useEffect(() => {
    const editor = view.current;
    if (editor && editor.state.doc.toString() === props.checked) tell(editor, props.problems);
  }, [props.problems, props.checked]);
  return html`<div class="texthost" ref=${host}></div>`;
}

/** Underlines the problems. @param {cm.EditorView} view @param {Problem[]} problems */
function tell(view, problems) {
  const text = view.state.doc.toString();
  const diagnostics = problems.map((problem) => ({ ...rangeOf(text, problem), severity: SEVERITY[problem.level], message: problem.message }));
  view.dispatch(cm.setDiagnostics(view.state, diagnostics.sort((a, b) => a.from - b.from)));
}

/** @param {cm.EditorView} view @param {{current: {typed: (text: string) => void}}} now @returns {Hand} */
function handOf(view, now) {
  const text = () => view.state.doc.toString();
  const replace = (/** @type {string} */ wanted) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: wanted } });
  return {
    text,
    set: replace,
    format() {
      const wanted = formatted(text());
      if (wanted !== null && wanted !== text()) formatIn(view, wanted);
      return wanted !== null;
    },
    go(problem) {
      const { from } = rangeOf(text(), problem);
      view.dispatch({ selection: { anchor: from }, effects: cm.EditorView.scrollIntoView(from, { y: "center" }) });
      view.focus();
    },
    next() {
      view.focus();
      cm.nextDiagnostic(view);
    },
    show(lines) {
      const { doc } = view.state;
      const wanted = lines && lines[0] <= doc.lines ? { from: lines[0], to: Math.min(lines[1], doc.lines) } : null;
      /** @type {cm.StateEffect<any>[]} */
      const effects = [chooseLines.of(wanted)];
      const cursor = doc.lineAt(view.state.selection.main.head).number;
      if (wanted && !(wanted.from <= cursor && cursor <= wanted.to)) {
        const { from } = doc.line(wanted.from);
        effects.push(cm.EditorView.scrollIntoView(from, { y: "start", yMargin: 60 }));
        view.dispatch({ selection: { anchor: from }, effects });
      } else view.dispatch({ effects });
    },
    focus: () => view.focus(),
  };
}

/** Changes white space alone, so that the cursor stays at its word. @param {cm.EditorView} view @param {string} wanted */
function formatIn(view, wanted) {
  const text = view.state.doc.toString();
  const changes = [];
  let [at, to] = [0, 0];
  const space = /\s/;
  while (at < text.length || to < wanted.length) {
    const [from, begin] = [at, to];
    while (at < text.length && space.test(text[at])) at++;
    while (to < wanted.length && space.test(wanted[to])) to++;
    if (text.slice(from, at) !== wanted.slice(begin, to)) changes.push({ from, to: at, insert: wanted.slice(begin, to) });
    while (at < text.length && to < wanted.length && text[at] === wanted[to] && !space.test(text[at])) [at, to] = [at + 1, to + 1];
  }
  view.dispatch({ changes, userEvent: "format" });
}

/** @param {{current: Parameters<typeof TextEditor>[0]}} now */
function extensions(now) {
  const { writable, label } = now.current;
  return [
    look,
    cm.json(),
    cm.lineNumbers(),
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
    cm.autocompletion({ override: [completed(now)], icons: false, activateOnTyping: writable, maxRenderedOptions: SHOWN_CHOICES }),
    aboutCursor,
    cm.hoverTooltip((/** @type {cm.EditorView} */ view, /** @type {number} */ at) => tooltip(view, at, now)),
    cm.EditorState.readOnly.of(!writable),
    overLines,
    cm.EditorView.contentAttributes.of({ "aria-label": label, "aria-readonly": String(!writable), tabindex: "0" }),
    cm.EditorView.updateListener.of((/** @type {any} */ update) => {
      if (update.docChanged) now.current.typed(update.state.doc.toString());
      if (update.docChanged || update.selectionSet) now.current.atLine(update.state.doc.lineAt(update.state.selection.main.head).number);
    }),
    cm.keymap.of([
      { key: "Mod-s", run: () => (now.current.save(), true), preventDefault: true },
      { key: "F1", run: (/** @type {cm.EditorView} */ view) => (tellAbout(view, now), true), preventDefault: true },
      { key: "Escape", run: (/** @type {cm.EditorView} */ view) => view.state.field(aboutCursor) !== null && (view.dispatch({ effects: showAbout.of(null) }), true) },
      { key: "F8", run: cm.nextDiagnostic },
      ...cm.closeBracketsKeymap, ...cm.completionKeymap, ...cm.searchKeymap, ...cm.foldKeymap, ...cm.historyKeymap, ...cm.defaultKeymap,
    ]),
  ];
}

/** What is typed over a selection is put there by the editor: the browser's own way joins lines with `style`
 * attributes, which the policy of the page forbids. */
const overLines = cm.EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { state } = view;
    const { main } = state.selection;
    const words = event.data;
    if (event.inputType !== "insertText" || !words || event.isComposing || main.empty || state.readOnly) return false;
    event.preventDefault();
    const insert = () => state.update(state.replaceSelection(words), { userEvent: "input.type", scrollIntoView: true });
    const taken = state.facet(cm.EditorView.inputHandler).some((handler) => handler(view, main.from, main.to, words, insert));
    if (!taken) view.dispatch(insert());
    return true;
  },
});

/** @param {cm.EditorView} view @param {number} at @param {{current: {known: Known | null}}} now */
function describe(view, at, now) {
  return now.current.known && describedAt(view.state.doc.toString(), at, now.current.known);
}

const showAbout = /** @type {cm.StateEffectType<cm.Tooltip | null>} */ (cm.StateEffect.define());
/** What F1 tells of the cursor's place, until something moves. */
const aboutCursor = /** @type {cm.StateField<cm.Tooltip | null>} */ (cm.StateField.define({
  create: () => /** @type {cm.Tooltip | null} */ (null),
  update(tip, transaction) {
    for (const effect of transaction.effects) if (effect.is(showAbout)) return effect.value;
    return transaction.docChanged || transaction.selection ? null : tip;
  },
  provide: (field) => cm.showTooltip.from(field),
}));

/** Shows and says what stands under the cursor; where there is nothing to say, Help opens. Until the words have come nothing happens. @param {cm.EditorView} view @param {{current: {known: Known | null, help: (page: string) => void}}} now */
function tellAbout(view, now) {
  if (!now.current.known) return;
  const at = view.state.selection.main.head;
  const about = describe(view, at, now);
  if (!about) return now.current.help("");
  const said = cm.EditorView.announce.of([about.title, about.kind, about.description].filter(Boolean).join(", "));
  view.dispatch({ effects: [showAbout.of(tooltip(view, at, now)), said] });
}

/** @param {{current: {known: Known | null, writable: boolean}}} now */
function completed(now) {
  return (/** @type {cm.CompletionContext} */ context) => {
    const { known, writable } = now.current;
    if (!known || !writable) return null;
    const text = context.state.doc.toString();
    const before = text[context.pos - 1] ?? "";
    if (!context.explicit && !/[\w"{.-]/.test(before)) return null;
    const found = completionsAt(text, context.pos, known);
    if (!found) return null;
    const typed = text.slice(found.from, context.pos).replace(/^"/, "").toLowerCase();
    const fits = found.choices.filter(({ label }) => !typed || label.toLowerCase().includes(typed));
    const shown = fits.length || !context.explicit ? fits : found.choices;
    return shown.length ? { from: found.from, to: found.to, filter: false, options: shown.map(optionOf) } : null;
  };
}

/** @param {import("./completion.js").Choice} choice */
function optionOf({ label, detail, info, insert, cursor }) {
  return {
    label, detail, info: info || undefined,
    apply(/** @type {cm.EditorView} */ view, /** @type {unknown} */ option, /** @type {number} */ from, /** @type {number} */ to) {
      view.dispatch({ changes: { from, to, insert }, selection: { anchor: from + cursor }, userEvent: "input.complete" });
      if (/["{[]$/.test(insert.slice(0, cursor)) && cursor < insert.length) cm.startCompletion(view);
    },
  };
}

/** @param {cm.EditorView} view @param {number} at @param {{current: {known: Known | null}}} now @returns {cm.Tooltip | null} */
function tooltip(view, at, now) {
  const about = describe(view, at, now);
  if (!about) return null;
  return {
    pos: about.from, end: about.to, above: true,
    create() {
      const dom = element("div", "about");
      const head = element("div", "");
      head.append(element("b", "", about.title), element("span", "dim", `  ${[about.kind, about.usual && `default ${about.usual}`].filter(Boolean).join(", ")}`));
      dom.append(head, element("p", "", about.description));
      if (about.page) {
        const link = /** @type {HTMLAnchorElement} */ (element("a", "", "Help"));
        link.href = `#/help/${about.page}`;
        dom.append(link);
      }
      return { dom };
    },
  };
}

/** @param {string} tag @param {string} name @param {string} [words] */
function element(tag, name, words = "") {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = words;
  return made;
}
