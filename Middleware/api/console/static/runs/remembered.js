// @ts-check
// Where a text that was sent repeats what a memory node gave. Pure.

/** @typedef {{whose: string, text: string}} Remembered what a node gave, and its name */
/** @typedef {{text: string, whose: string}} Piece `whose`: "" where nobody gave it */

/** A shorter output says nothing. */
const WHOLE_FROM = 40;
/** Of an output that is not there whole, so much must be. */
const STRETCH = 200;
/** Every stretch holds one of the pieces of this length that begin at its multiples. */
const STEP = STRETCH / 2;

/**
 * The text in pieces, those of memory nodes apart; of each stretch the first place counts.
 * @param {string} text @param {Remembered[]} memories @returns {Piece[]}
 */
export function piecesOf(text, memories) {
  const spans = memories.flatMap(({ whose, text: given }) =>
    stretches(text, given.trim()).map((span) => ({ ...span, whose })),
  );
  spans.sort((a, b) => a.from - b.from || b.to - a.to);
  const pieces = /** @type {Piece[]} */ ([]);
  let at = 0;
  for (const { from, to, whose } of spans) {
    if (from < at) continue;
    if (from > at) pieces.push({ text: text.slice(at, from), whose: "" });
    pieces.push({ text: text.slice(from, to), whose });
    at = to;
  }
  if (at < text.length || !pieces.length) pieces.push({ text: text.slice(at), whose: "" });
  return pieces;
}

/** @param {string} text @param {string} given @returns {{from: number, to: number}[]} */
function stretches(text, given) {
  if (given.length < WHOLE_FROM) return [];
  const whole = text.indexOf(given);
  if (whole >= 0) return [{ from: whole, to: whole + given.length }];
  const found = [];
  for (let at = 0; at + STEP <= given.length; at += STEP) {
    const place = text.indexOf(given.slice(at, at + STEP));
    if (place < 0) continue;
    const before = sameBefore(text, place, given, at);
    const after = sameAfter(text, place + STEP, given, at + STEP);
    const to = place + STEP + after;
    if (to - (place - before) >= STRETCH) found.push({ from: place - before, to });
    at += Math.floor(after / STEP) * STEP;
  }
  return found;
}

/**
 * How many characters before two places are the same.
 * @param {string} a @param {number} i @param {string} b @param {number} j
 */
function sameBefore(a, i, b, j) {
  let count = 0;
  while (count < i && count < j && a[i - count - 1] === b[j - count - 1]) count++;
  return count;
}

/**
 * How many characters from two places on are the same.
 * @param {string} a @param {number} i @param {string} b @param {number} j
 */
function sameAfter(a, i, b, j) {
  let count = 0;
  while (i + count < a.length && j + count < b.length && a[i + count] === b[j + count]) count++;
  return count;
}
