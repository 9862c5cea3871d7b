// @ts-check
// Places of a text: lines and columns as the server counts them (from 1, by characters), offsets as the editor
// counts them (from 0, by halves of UTF-16). Pure.
import { listed } from "../shared/words.js";

/**
 * @param {string} text
 * @param {number} line
 * @param {number} column
 * @returns {number} never beyond the line or the text
 */
export function offsetOf(text, line, column) {
  let start = 0;
  for (let at = 1; at < line; at++) {
    start = text.indexOf("\n", start) + 1;
    if (!start) return text.length;
  }
  const [words] = text.slice(start).split("\n", 1);
  return start + [...words].slice(0, column - 1).join("").length;
}

/**
 * From where to where a problem is underlined; at least one character where there is one.
 * @param {string} text @param {import("./workflow_types.js").Problem} problem
 */
export function rangeOf(text, { line, column, end_line, end_column }) {
  const from = offsetOf(text, line || 1, column || 1);
  const to = end_line ? offsetOf(text, end_line, end_column) : from;
  if (to > from) return { from, to };
  return from < text.length && text[from] !== "\n" ? { from, to: from + 1 } : { from: Math.max(from - 1, 0), to: from };
}

/**
 * `7:47 node 5 Answer, prompt: {agent6Output} is not known yet: this is node 5`
 * @param {import("./workflow_types.js").Problem} problem @param {(n: number) => string | undefined} titleOf
 */
export function lineOf({ line, column, node, pointer, message }, titleOf) {
  const field = fieldIn(pointer, node);
  const where = listed(node && `node ${node} ${titleOf(node) ?? ""}`.trim(), field);
  return { at: line ? `${line}:${column}` : "", where, message };
}

/** What of a pointer stands behind the node. @param {string} pointer @param {number | null} node */
function fieldIn(pointer, node) {
  const parts = pointer
    .split("/")
    .slice(1)
    .map((part) => part.replace(/~1/g, "/").replace(/~0/g, "~"));
  if (node) parts.splice(0, parts[0] === "nodes" ? 2 : 1);
  return parts.join(".");
}

/**
 * The node whose lines hold a line; null between nodes.
 * @param {{n: number, lines: [number, number]}[]} nodes
 * @param {number} line
 */
export const nodeAtLine = (nodes, line) => nodes.find(({ lines }) => lines[0] <= line && line <= lines[1])?.n ?? null;

/** Behind what differs. @param {string} before @param {string} after */
export function changedAt(before, after) {
  let end = 0;
  while (end < Math.min(before.length, after.length) && before.at(-1 - end) === after.at(-1 - end)) end++;
  let start = 0;
  while (start < after.length && before[start] === after[start]) start++;
  return Math.max(start, after.length - end);
}
