// @ts-check
// Formats a JSON text: two spaces a level, a member a line. Only white space changes; comments, the order
// of keys and single empty lines stay. Pure.
import { tokensOf } from "./json_tree.js";

const LONGEST_LINE = 80;
const CLOSING = /** @type {Record<string, string>} */ ({ "{": "}", "[": "]" });

/** @typedef {import("./json_tree.js").Token} Token */

/**
 * @param {string} text
 * @returns {{from: number, to: number, insert: string}[] | null} the white space to change; null when brackets do not
 *   fit together: there is no layout then
 */
export function layoutOf(text) {
  const tokens = tokensOf(text);
  const ends = endsOf(tokens);
  if (!ends || !tokens.length) return null;
  /** @type {{from: number, to: number, insert: string}[]} */
  const changes = [];
  const put = (/** @type {number} */ from, /** @type {number} */ to, /** @type {string} */ insert) =>
    text.slice(from, to) !== insert && changes.push({ from, to, insert });
  let level = 0;
  let flatEnd = -1; // the token at which a holder that stays on its line ends
  tokens.forEach((token, at) => {
    const before = tokens[at - 1];
    if (/[}\]]/.test(token.kind) && at !== flatEnd) level -= 1;
    if (!before) put(0, token.start, "");
    else
      put(
        before.end,
        token.start,
        spaceBetween(before, token, text.slice(before.end, token.start), at <= flatEnd, level),
      );
    const end = ends.get(at);
    if (end !== undefined && fitsLine(text, tokens.slice(at, end + 1), level)) flatEnd = end;
    else if (end !== undefined) level += 1;
  });
  put(tokens[tokens.length - 1].end, text.length, "\n");
  return changes;
}

/**
 * @param {Token} before @param {Token} token @param {string} space the white space that stands between them
 * @param {boolean} inFlat @param {number} level
 */
function spaceBetween(before, token, space, inFlat, level) {
  const closes = /[}\]]/.test(token.kind);
  const line = (/\n[^\S\n]*\n/.test(space) && !closes ? "\n\n" : "\n") + "  ".repeat(level);
  if (before.kind === "comment" || token.kind === "comment") return space.includes("\n") ? line : " ";
  if (CLOSING[before.kind] === token.kind || /[,:]/.test(token.kind)) return "";
  if (before.kind === ":") return " ";
  if (inFlat) return before.kind === "," || before.kind === "{" || token.kind === "}" ? " " : "";
  return line;
}

/**
 * Where each opening bracket is closed, by positions of tokens.
 * @param {Token[]} tokens
 * @returns {Map<number, number> | null} null when they do not fit together
 */
function endsOf(tokens) {
  const ends = new Map();
  /** @type {number[]} */
  const open = [];
  for (const [at, { kind }] of tokens.entries()) {
    if (kind === "{" || kind === "[") open.push(at);
    else if (kind === "}" || kind === "]") {
      const from = open.pop();
      if (from === undefined || CLOSING[tokens[from].kind] !== kind) return null;
      ends.set(from, at);
    }
  }
  return open.length ? null : ends;
}

/**
 * Claims that a holder stays on the line on which it was written: short, and without holders or comments inside.
 * @param {string} text @param {Token[]} tokens those of the holder @param {number} level
 */
function fitsLine(text, tokens, level) {
  if (tokens.slice(1).some(({ kind }) => kind === "comment" || kind === "{" || kind === "[")) return false;
  const written = text.slice(tokens[0].start, tokens.at(-1)?.end);
  return !written.includes("\n") && written.length + 2 * level <= LONGEST_LINE;
}
