// @ts-check
// The lines of the node that is chosen in the picture, marked in the text.
import * as cm from "../vendor/editor.js";

/** @typedef {{from: number, to: number} | null} Lines counted from 1 */

const choice = /** @type {cm.StateEffectType<Lines>} */ (cm.StateEffect.define());
const chosen = cm.Decoration.line({ class: "chosen" });

export const chosenLines = /** @type {cm.StateField<cm.DecorationSet>} */ (
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
export function chooseLines(view, lines) {
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
