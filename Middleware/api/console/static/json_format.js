// @ts-check
// Lays a JSON text out anew: two spaces a level, a member a line. Only white space changes; comments, the order
// of keys and single empty lines stay. Pure.
import { tokensOf } from "./json_tree.js";

const LONGEST_LINE = 80;
const CLOSING = /** @type {Record<string, string>} */ ({ "{": "}", "[": "]" });

/** @typedef {import("./json_tree.js").Token} Token */

/**
 * @param {string} text
 * @returns {string | null} null when brackets do not fit together: there is no layout then
 */
export function formatted(text) {
  const tokens = tokensOf(text);
  const ends = endsOf(tokens);
  if (!ends || !tokens.length) return null;
  const lines = new Lines(text);
  /** @type {number[]} positions of tokens at which a holder that stays on its line ends */
  const flat = [];
  let level = 0;
  tokens.forEach((token, at) => {
    const before = tokens[at - 1];
    if ((token.kind === "}" || token.kind === "]") && flat.at(-1) !== at) level -= 1;
    if (!before) lines.put(token);
    else if (joined(text, before, token, flat.length > 0)) lines.put(token, needsSpace(before, token) ? " " : "");
    else lines.begin(token, level, text.slice(before.end, token.start));
    if (flat.at(-1) === at) flat.pop();
    const end = ends.get(at);
    if (end === undefined) return;
    if (flat.length || fitsLine(text, tokens, at, end, level)) flat.push(end);
    else level += 1;
  });
  return lines.text();
}

/** The text that grows. */
class Lines {
  /** @param {string} text */
  constructor(text) {
    this.source = text;
    this.out = "";
  }

  /** @param {Token} token @param {string} [space] */
  put(token, space = "") {
    this.out += space + this.source.slice(token.start, token.end);
  }

  /** @param {Token} token @param {number} level @param {string} gap the white space that stood before it */
  begin(token, level, gap) {
    const empty = /\n[^\S\n]*\n/.test(gap) && !/^[}\]]$/.test(token.kind);
    this.put(token, (empty ? "\n\n" : "\n") + "  ".repeat(Math.max(level, 0)));
  }

  text() {
    return `${this.out}\n`;
  }
}

/**
 * Claims that two tokens stand on one line.
 * @param {string} text @param {Token} before @param {Token} token @param {boolean} inFlat
 */
function joined(text, before, token, inFlat) {
  if (before.kind === "comment") return !text.slice(before.start).startsWith("//") && !text.slice(before.end, token.start).includes("\n");
  if (token.kind === "comment") return !text.slice(before.end, token.start).includes("\n");
  if (CLOSING[before.kind] === token.kind) return true;
  if (token.kind === "," || token.kind === ":" || before.kind === ":") return true;
  return inFlat;
}

/** @param {Token} before @param {Token} token */
function needsSpace(before, token) {
  if (token.kind === "comment" || before.kind === "comment") return true;
  if (token.kind === "," || token.kind === ":") return false;
  return before.kind === "," || before.kind === ":" || token.kind === "}" || before.kind === "{" ? CLOSING[before.kind] !== token.kind : false;
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
 * @param {string} text @param {Token[]} tokens @param {number} from @param {number} to @param {number} level
 */
function fitsLine(text, tokens, from, to, level) {
  const inside = tokens.slice(from + 1, to);
  if (inside.some(({ kind }) => kind === "comment" || kind === "{" || kind === "[")) return false;
  const written = text.slice(tokens[from].start, tokens[to].end);
  return !written.includes("\n") && written.length + 2 * level <= LONGEST_LINE;
}
