// @ts-check
// What each cleaning rule took from a text: pieces of the raw text, each kept, taken away or added. Pure.

/**
 * @typedef {{text: string, kind: "kept" | "gone" | "added", rule: string}} Piece
 * @typedef {{value: string, added?: boolean, removed?: boolean}} Change
 * @typedef {(before: string, after: string, options: {timeout: number}) => Change[] | undefined} Differ
 *   `diffWordsWithSpace` of `diff`
 */

const MOST_MS = 300;

/**
 * @param {string} raw
 * @param {{rule: string, text: string}[]} steps each with the text behind it
 * @param {Differ} differ
 * @returns {Piece[]}
 */
export function piecesOf(raw, steps, differ) {
  let pieces = /** @type {Piece[]} */ (raw ? [{ text: raw, kind: "kept", rule: "" }] : []);
  let text = raw;
  for (const step of steps) {
    pieces = applied(pieces, changes(text, step.text, differ), step.rule);
    text = step.text;
  }
  return joined(pieces);
}

/** From one text to the next: what they begin and end with in common is set aside, what is left is compared by words.
 * @param {string} before @param {string} after @param {Differ} differ @returns {Change[]} */
export function changes(before, after, differ) {
  let start = 0;
  const most = Math.min(before.length, after.length);
  while (start < most && before[start] === after[start]) start++;
  let end = 0;
  while (end < most - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const [old, young] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
  const whole = [
    { value: old, removed: true },
    { value: young, added: true },
  ];
  const middle = old && young ? (differ(old, young, { timeout: MOST_MS }) ?? whole) : whole;
  return [{ value: before.slice(0, start) }, ...middle, { value: before.slice(before.length - end) }].filter(
    ({ value }) => value,
  );
}

/** @param {Piece[]} pieces @param {Change[]} changed @param {string} rule @returns {Piece[]} */
function applied(pieces, changed, rule) {
  const left = [...pieces];
  const made = /** @type {Piece[]} */ ([]);
  /**
   * The next characters of the text that was; what is gone already is passed by.
   * @param {number} count
   * @param {boolean} stays
   */
  const take = (count, stays) => {
    while (count > 0 && left.length) {
      const piece = left[0];
      if (piece.kind === "gone") made.push(/** @type {Piece} */ (left.shift()));
      else {
        const part = piece.text.slice(0, count);
        count -= part.length;
        if (part.length === piece.text.length) left.shift();
        else left[0] = { ...piece, text: piece.text.slice(part.length) };
        if (stays) made.push({ ...piece, text: part });
        else if (piece.kind === "kept") made.push({ text: part, kind: "gone", rule });
      }
    }
  };
  for (const { value, added, removed } of changed) {
    if (added) made.push({ text: value, kind: "added", rule });
    else take(value.length, !removed);
  }
  return [...made, ...left];
}

/** Neighbours of one kind and rule are one piece. @param {Piece[]} pieces @returns {Piece[]} */
function joined(pieces) {
  const made = /** @type {Piece[]} */ ([]);
  for (const piece of pieces) {
    const last = made.at(-1);
    if (last && last.kind === piece.kind && last.rule === piece.rule)
      made[made.length - 1] = { ...last, text: last.text + piece.text };
    else made.push(piece);
  }
  return made;
}
