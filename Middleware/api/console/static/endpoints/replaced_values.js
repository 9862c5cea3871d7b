// @ts-check
// Values of a JSON text replaced where they stand: all else of it stays as it is written. Pure.
import { read, tokensOf } from "../workflows/json_tree.js";

/**
 * The text with these values in its outermost object; a key that is not there is put first. Of a key whose old value is
 * no single word or text, nothing is changed.
 * @param {string} text @param {Record<string, unknown>} values
 */
export function withValues(text, values) {
  const tokens = tokensOf(text);
  const { root, spots } = read(text, tokens);
  const begin = tokens.find(({ kind }) => kind !== "comment")?.end;
  if (root?.kind !== "object" || begin === undefined) return text;
  const edits = Object.entries(values).flatMap(([key, value]) => {
    const written = JSON.stringify(value);
    const member = root.members.findLast((one) => one.key === key);
    const comma = root.members.length ? "," : "";
    if (!member) return [{ from: begin, to: begin, put: `\n  ${JSON.stringify(key)}: ${written}${comma}` }];
    const spot = spots.find((one) => one.role === "value" && one.member === member);
    return spot && /\w/.test(spot.token.kind) ? [{ from: spot.token.start, to: spot.token.end, put: written }] : [];
  });
  edits.sort((a, b) => b.from - a.from);
  return edits.reduce((made, { from, to, put }) => made.slice(0, from) + put + made.slice(to), text);
}
