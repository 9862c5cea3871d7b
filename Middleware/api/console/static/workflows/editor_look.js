// @ts-check
// How an editor looks and where it stands: in a shadow root, where it uses constructed style sheets, so that the page's
// Content Security Policy stays strict. Colours are those of the page (custom properties reach into the shadow root),
// so that it follows light and dark by itself.
import * as cm from "../vendor/editor.js";
import { tokensOf } from "./json_tree.js";

/** What stands over an editor: completions and what is told of a place. */
export const tooltips = {
  ".cm-tooltip": {
    background: "var(--panel)",
    color: "var(--ink)",
    border: "1px solid var(--line)",
    borderRadius: "6px",
    font: "var(--text)",
    maxWidth: "440px",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { font: "var(--code)", maxHeight: "none", minWidth: "200px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 8px", lineHeight: "18px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { background: "var(--pick)", color: "var(--ink)" },
  ".cm-completionDetail": { color: "var(--soft)", fontStyle: "normal", font: "12px/16px system-ui, sans-serif" },
  ".cm-completionInfo": { padding: "6px 10px", font: "var(--text)", maxWidth: "320px" },
};
const theme = cm.EditorView.theme({
  ...tooltips,
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--panel)", font: "var(--code)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { font: "var(--code)", overflow: "auto" },
  ".cm-content": { caretColor: "var(--ink)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "var(--select)",
  },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--faint)", border: "0" },
  ".cm-lineNumbers .cm-gutterElement": { minWidth: "34px", padding: "0 4px 0 8px" },
  ".cm-foldGutter .cm-gutterElement": { width: "14px", cursor: "pointer" },
  ".cm-foldPlaceholder": {
    background: "var(--hover)",
    border: "1px solid var(--line)",
    color: "var(--soft)",
    padding: "0 6px",
  },
  ".cm-activeLine": { backgroundColor: "transparent" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--hover) 70%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "transparent", color: "var(--ink)" },
  ".cm-line.chosen": { backgroundColor: "var(--pick)" },
  "@media (forced-colors: active)": { ".cm-line.chosen": { borderLeft: "3px solid Highlight", paddingLeft: "3px" } },
  ".cm-comment": { color: "var(--soft)", fontStyle: "italic" },
  ".cm-comment *": { color: "inherit !important" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": {
    backgroundColor: "transparent",
    outline: "1px solid var(--faint)",
  },
  ".cm-nonmatchingBracket, &.cm-focused .cm-nonmatchingBracket": {
    backgroundColor: "transparent",
    color: "var(--bad)",
  },
  ".cm-selectionMatch": { backgroundColor: "var(--hover)" },
  ".cm-searchMatch": { backgroundColor: "var(--warn-wash)", outline: "1px solid var(--w-queue)" },
  ".cm-searchMatch-selected": { backgroundColor: "var(--pick)", outline: "1px solid var(--accent)" },
  ".cm-lintRange": {
    backgroundImage: "none !important",
    textDecoration: "underline wavy 1px",
    textUnderlineOffset: "4px",
    textDecorationSkipInk: "none",
  },
  ".cm-lintRange-error": { textDecorationColor: "var(--bad)" },
  ".cm-lintRange-warning": { textDecorationColor: "var(--wait)" },
  ".cm-lintRange-info": { textDecorationColor: "var(--soft)" },
  ".cm-lintPoint::after": { borderBottomColor: "var(--bad)" },
  ".cm-diagnostic": { borderLeft: "3px solid var(--faint)", padding: "4px 10px" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--w-queue)" },
  ".cm-panels": { background: "var(--panel)", color: "var(--ink)", borderColor: "var(--line)" },
  ".cm-panel.cm-search": { padding: "8px 12px", font: "var(--text)" },
  ".cm-panel.cm-search label": { fontSize: "12px", color: "var(--soft)" },
  ".cm-textfield, .cm-button": {
    background: "var(--paper)",
    color: "var(--ink)",
    border: "1px solid var(--line)",
    borderRadius: "6px",
    padding: "3px 8px",
    fontSize: "13px",
  },
  ".cm-button": { background: "var(--panel)", padding: "3px 10px", cursor: "pointer" },
  ".cm-button:is(:hover, :active)": { background: "var(--hover)" },
  ".cm-panels :focus-visible": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-panel.cm-search [name=close]": { color: "var(--soft)", font: "20px/24px system-ui", width: "24px" },
  ".about": { padding: "8px 12px", display: "grid", gap: "4px" },
  ".about b": { font: "600 13px/19px ui-monospace, monospace" },
  ".about .dim": { color: "var(--soft)", fontSize: "12px" },
  ".about p": { margin: "0" },
  ".about a": { color: "var(--accent)" },
  ".cm-changedLine": { backgroundColor: "var(--warn-wash) !important" },
  ".cm-changedText": { background: "color-mix(in srgb, var(--w-queue) 40%, transparent) !important" },
  ".cm-changedText *": { color: "var(--ink)" },
  ".cm-collapsedLines": { background: "var(--hover) !important", color: "var(--soft)", padding: "3px 8px" },
  ".cm-collapsedLines:before, .cm-collapsedLines:after": { content: "'' !important" },
  ".cm-changedLineGutter": { background: "var(--w-queue) !important" },
});

const { tags } = cm;
const colours = cm.HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--e6)" },
  { tag: tags.string, color: "var(--e4)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--e2)" },
  { tag: [tags.separator, tags.squareBracket, tags.brace, tags.punctuation], color: "var(--soft)" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

const comment = cm.Decoration.mark({ class: "cm-comment" });
/** Comments, which JSON's grammar does not know. */
const comments = cm.EditorView.decorations.compute(["doc"], ({ doc }) => {
  const found = tokensOf(doc.toString()).filter(({ kind }) => kind === "comment");
  return cm.Decoration.set(found.map(({ start, end }) => comment.range(start, end)));
});

/** What every editor of a config file has. @param {string} label @param {boolean} writable */
export const look = (label, writable) => [
  theme,
  cm.syntaxHighlighting(colours),
  comments,
  cm.json(),
  cm.lineNumbers(),
  cm.EditorState.readOnly.of(!writable),
  cm.EditorView.contentAttributes.of({ "aria-label": label, "aria-readonly": String(!writable), tabindex: "0" }),
];

/** The root in which an editor stands. @param {HTMLElement | null} host */
export const rootIn = (host) => /** @type {ShadowRoot} */ (host?.shadowRoot ?? host?.attachShadow({ mode: "open" }));

/** What is typed over a selection is put there by the editor: the browser's own way joins lines with `style`
 * attributes, which the policy of the page forbids. */
export const overLines = cm.EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { state } = view;
    const { main } = state.selection;
    const words = event.data;
    if (event.inputType !== "insertText" || !words || event.isComposing || main.empty || state.readOnly) return false;
    event.preventDefault();
    const insert = () => state.update(state.replaceSelection(words), { userEvent: "input.type", scrollIntoView: true });
    const taken = state
      .facet(cm.EditorView.inputHandler)
      .some((handler) => handler(view, main.from, main.to, words, insert));
    if (!taken) view.dispatch(insert());
    return true;
  },
});
