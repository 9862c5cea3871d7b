// @ts-check
// The smallest edits of a JSON text: a value, a member in or out, an item moved. What is around them stays as it is
// written, comments too. Pure. Source: spec workbench.md 1.
import { read, tokensOf } from "./json_tree.js";

/**
 * @typedef {import("./json_tree.js").Tree} Tree
 * @typedef {import("./json_tree.js").Member} Member
 * @typedef {{from: number, to: number, insert: string}} Change places of the text as it was; none touches another
 */

/** @param {string} text @param {Change[]} changes */
export function applied(text, changes) {
  let at = 0;
  const parts = sorted(changes).map(({ from, to, insert }) => {
    const part = text.slice(at, from) + insert;
    at = to;
    return part;
  });
  return parts.join("") + text.slice(at);
}

/** @param {Change[]} changes */
const sorted = (changes) => [...changes].sort((a, b) => a.from - b.from || a.to - b.to);

/** A text as JSON writes it: escaped where it must be and nowhere else. @param {string} text */
export const quoted = (text) => JSON.stringify(text);

/** The member that the engine reads: the last one of its key. @param {Tree} holder @param {string} key */
export const memberOf = (holder, key) => holder.members.findLast((member) => member.key === key) ?? null;

/**
 * Another value in the place of one. `written`: as JSON.
 * @param {string} text @param {Tree} tree @param {string} written
 * @returns {Change[]}
 */
export function changeValue(text, tree, written) {
  const old = text.slice(tree.start, tree.end);
  if (old === written) return [];
  const stretch = old[0] === '"' && written[0] === '"' ? changedStretch(old, written) : null;
  if (!stretch) return [{ from: tree.start, to: tree.end, insert: written }];
  return [{ ...stretch, from: tree.start + stretch.from, to: tree.start + stretch.to }];
}

const LETTER = /\\u[0-9a-fA-F]{4}|\\[^]|[^\\]/g;

/**
 * What of a text in quotes is another one, so that escapes elsewhere in it stay as they are written.
 * @param {string} old @param {string} written
 * @returns {Change | null} null for what is no text
 */
function changedStretch(old, written) {
  let before;
  try {
    before = JSON.parse(old);
  } catch {
    return null;
  }
  const after = JSON.parse(written);
  const pieces = old.slice(1, -1).match(LETTER) ?? []; // each is one unit of the text
  const [start, end] = equalEnds(before, after);
  const from = 1 + pieces.slice(0, start).join("").length;
  const to = from + pieces.slice(start, pieces.length - end).join("").length;
  return { from, to, insert: quoted(after.slice(start, after.length - end)).slice(1, -1) };
}

/**
 * How many units two texts have in common at both ends; no letter of two units is cut.
 * @param {string} before @param {string} after
 */
function equalEnds(before, after) {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start++;
  if (/[\ud800-\udbff]/.test(before[start - 1] ?? "")) start--;
  let end = 0;
  while (end < most - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  if (end && /[\udc00-\udfff]/.test(before.at(-end) ?? "")) end--;
  return [start, end];
}

/**
 * A field of an object: another value, or a new member behind the last one.
 * @param {string} text @param {Tree} holder @param {string} key @param {string} written
 * @returns {Change[]}
 */
export function setField(text, holder, key, written) {
  const member = memberOf(holder, key);
  if (member?.value) return changeValue(text, member.value, written);
  if (member)
    return [{ from: member.end, to: member.end, insert: member.colon ? ` ${written}` : `: ${written}` }];
  return insertBehind(text, holder, `${quoted(key)}: ${written}`);
}

/**
 * A new member behind the last one, laid out as that one.
 * @param {string} text @param {Tree} holder @param {string} written the whole of it
 * @returns {Change[]}
 */
export function insertBehind(text, holder, written) {
  const last = holder.members.at(-1);
  if (!last) return [{ from: holder.start + 1, to: holder.start + 1, insert: written }];
  const isTrailing = last.comma !== null;
  const at = endOfTail(text, last.comma === null ? last.end : last.comma + 1, insideEnd(holder));
  const space = hasLines(text, holder) ? `\n${indentAt(text, last.start)}` : " ";
  const insert = `${space}${written}${isTrailing ? "," : ""}`;
  if (isTrailing) return [{ from: at, to: at, insert }];
  const comma = { from: last.end, to: last.end, insert: "," };
  return at === last.end ? [{ ...comma, insert: `,${insert}` }] : [comma, { from: at, to: at, insert }];
}

/**
 * A new item before the one that has this place; behind the last one where none has.
 * @param {string} text @param {Tree} list @param {number} place from 0 @param {string} written
 * @returns {Change[]}
 */
export function insertItem(text, list, place, written) {
  const item = list.members[place];
  if (!item) return insertBehind(text, list, written);
  const start = blockStart(text, list, item);
  const line = lineStart(text, start);
  if (!isBlank(text.slice(line, start))) return [{ from: start, to: start, insert: `${written}, ` }];
  return [{ from: line, to: line, insert: `${text.slice(line, start)}${written},\n` }];
}

/**
 * A member out: with its comma, and with its line where nothing else stands there but the comment that ends it.
 * `comments`: those on the lines directly above go along.
 * @param {string} text @param {Tree} holder @param {Member} member @param {{comments?: boolean}} [how]
 * @returns {Change[]}
 */
export function removeMember(text, holder, member, { comments = false } = {}) {
  const at = holder.members.indexOf(member);
  const before = holder.members[at - 1];
  const start = comments ? blockStart(text, holder, member) : member.start;
  const isLast = at === holder.members.length - 1;
  const lostComma = isLast && member.comma === null ? (before?.comma ?? null) : member.comma;
  const isBehind = lostComma !== null && lostComma >= member.end;
  const isWhole = !isBehind || isBlank(text.slice(member.end, lostComma));
  const end = isBehind && isWhole ? lostComma + 1 : member.end;
  const out = spanOut(text, holder, start, end, isWhole, isLast);
  const touches = lostComma === null || (isBehind && isWhole);
  if (!touches && lostComma + 1 === out.from) return [{ ...out, from: lostComma }];
  return touches ? [out] : sorted([{ from: lostComma, to: lostComma + 1, insert: "" }, out]);
}

/**
 * What goes with a member besides its comma: its lines, else the blanks at one side.
 * @param {string} text @param {Tree} holder @param {number} start @param {number} end
 * @param {boolean} isWhole nothing stays between member and comma @param {boolean} isLast
 * @returns {Change}
 */
function spanOut(text, holder, start, end, isWhole, isLast) {
  const line = lineStart(text, start);
  const limit = insideEnd(holder);
  const next = text.indexOf("\n", end);
  const ends = next >= 0 && next < limit;
  if (isWhole && line > holder.start && ends && isBlank(text.slice(line, start)) && isOneTail(text.slice(end, next)))
    return { from: line, to: next + 1, insert: "" };
  const blank = /^[ \t]*/.exec(text.slice(end, limit))?.[0].length ?? 0;
  if (!isLast) return { from: start, to: text[end + blank] === "\n" ? end : end + blank, insert: "" };
  const gap = /\s*$/.exec(text.slice(holder.start + 1, start))?.[0].length ?? 0;
  const isBehindLineComment = /\/\/[^\n]*$/.test(text.slice(lineStart(text, start - gap), start - gap));
  return { from: isBehindLineComment || start - gap === holder.start + 1 ? start : start - gap, to: end, insert: "" };
}

/**
 * An item at another place of its list, with the comments above it and the one behind it on its line.
 * @param {string} text @param {Tree} list @param {number} from @param {number} to both from 0
 * @returns {Change[]}
 */
export function moveItem(text, list, from, to) {
  const [first, last] = [Math.min(from, to), Math.max(from, to)];
  const slots = list.members.slice(first, last + 1).map((item) => slotOf(text, list, item));
  const order = [...slots];
  order.splice(to - first, 0, ...order.splice(from - first, 1));
  const [start, end] = [slots[0].start, slots[slots.length - 1].end];
  const insert = slots
    .map(({ comma, end: slotEnd }, at) => {
      const { body, tail } = order[at];
      const rest = text.slice(slotEnd, slots[at + 1]?.start ?? slotEnd);
      const breaks = tail.includes("//") && text[slotEnd] !== "\n" ? "\n" : ""; // the comment must end
      return `${body}${comma}${tail}${breaks}${rest}`;
    })
    .join("");
  return trimmed(text, { from: start, to: end, insert });
}

/**
 * `body`: comments above, the item, and what stands before its comma; `tail`: the comment that ends its line.
 * @param {string} text @param {Tree} list @param {Member} item
 */
function slotOf(text, list, item) {
  const start = blockStart(text, list, item);
  const body = text.slice(start, item.comma ?? item.end);
  const behind = item.comma === null ? item.end : item.comma + 1;
  const end = endOfTail(text, behind, insideEnd(list));
  return { start, end, body, comma: item.comma === null ? "" : ",", tail: text.slice(behind, end) };
}

/** Without what stays at both ends. @param {string} text @param {Change} change @returns {Change[]} */
function trimmed(text, { from, to, insert }) {
  const [start, end] = equalEnds(text.slice(from, to), insert);
  if (start + end >= insert.length && start + end >= to - from) return [];
  return [{ from: from + start, to: to - end, insert: insert.slice(start, insert.length - end) }];
}

/** @param {string} text */
const isBlank = (text) => /^\s*$/.test(text);
/** Blanks, and at most one comment. @param {string} text */
const isOneTail = (text) => /^[ \t]*(?:\/\/[^\n]*|\/\*(?:[^*]|\*(?!\/))*\*\/)?[ \t]*$/.test(text);
/** @param {string} text @param {number} at */
export const lineStart = (text, at) => text.lastIndexOf("\n", at - 1) + 1;
/** Where the last bracket of a list or object stands. @param {Tree} holder */
const insideEnd = ({ end, closed }) => (closed ? end - 1 : Number.POSITIVE_INFINITY);

/** What a line begins with. @param {string} text @param {number} at */
export const indentAt = (text, at) => /^[ \t]*/.exec(text.slice(lineStart(text, at), at))?.[0] ?? "";

/**
 * Behind the comments that follow on the line.
 * @param {string} text @param {number} at @param {number} limit
 */
function endOfTail(text, at, limit) {
  const line = text.indexOf("\n", at);
  const end = Math.min(limit, line < 0 ? text.length : line);
  const found = /^(?:[ \t]*(?:\/\/[^\n]*|\/\*(?:[^*]|\*(?!\/))*\*\/))+/.exec(text.slice(at));
  return found && at + found[0].length <= end ? at + found[0].length : at;
}

/**
 * Whether the members stand on lines of their own: there is a line end that is not within one of them.
 * @param {string} text @param {Tree} holder
 */
export function hasLines(text, holder) {
  let at = holder.start;
  return [...holder.members, { start: holder.end, end: holder.end }].some(({ start, end }) => {
    const gap = text.slice(at, start);
    at = end;
    return gap.includes("\n");
  });
}

/**
 * Where an item begins with the comments on the lines directly above it.
 * @param {string} text @param {Tree} list @param {Member} item
 */
function blockStart(text, list, item) {
  const before = list.members[list.members.indexOf(item) - 1];
  const limit = before ? (before.comma ?? before.end) + 1 : list.start + 1;
  let start = item.start;
  const comments = tokensOf(text.slice(limit, item.start)).filter(({ kind }) => kind === "comment");
  for (const { start: from, end: to } of comments.reverse()) {
    const gap = text.slice(limit + to, start);
    const begin = limit + from;
    const line = lineStart(text, begin);
    const isOwnLine = line >= limit && isBlank(text.slice(line, begin));
    if (!isBlank(gap) || (gap.match(/\n/g) ?? []).length !== 1 || !isOwnLine) break;
    start = begin;
  }
  return start;
}

// --- values replaced where they stand: all else of the text stays as it is written ---

/**
 * The text with these values in its outermost object; a key that is not there is put first. Of a key whose old value is
 * no single word or text, nothing is changed.
 * @param {string} text @param {Record<string, unknown>} values
 */
export function withValues(text, values) {
  const tokens = tokensOf(text);
  const { root, spots } = read(text, tokens);
  const begin = tokens.find(({ kind }) => kind !== "comment")?.end;
  if (root?.kind !== "object" || !begin) return text;
  const edits = Object.entries(values).flatMap(([key, value], at) => {
    const written = JSON.stringify(value);
    const member = root.members.findLast((one) => one.key === key);
    const put = `\n  ${JSON.stringify(key)}: ${written}${at + root.members.length ? "," : ""}`;
    if (!member) return [{ from: begin, to: begin, put }];
    const spot = spots.find((one) => one.role === "value" && one.member === member);
    return spot && /\w/.test(spot.token.kind) ? [{ from: spot.token.start, to: spot.token.end, put: written }] : [];
  });
  edits.sort((a, b) => b.from - a.from);
  return edits.reduce((made, { from, to, put }) => made.slice(0, from) + put + made.slice(to), text);
}
