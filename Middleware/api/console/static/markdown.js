// @ts-check
// Markdown of our docs -> plain data. What it does not know stays text. Makes no elements: prose.js does.

/** @typedef {{ kind: "text", text: string } | { kind: "code", text: string } | { kind: "strong" | "em", inside: Inline[] }
 *   | { kind: "link", to: string, inside: Inline[] } | { kind: "picture", text: string }} Inline */
/** @typedef {{ kind: "heading", level: number, id: string, inside: Inline[] } | { kind: "paragraph", inside: Inline[] }
 *   | { kind: "list", start: number | null, items: Block[][] } | { kind: "code", language: string, text: string }
 *   | { kind: "table", head: Inline[][], rows: Inline[][][] } | { kind: "quote", inside: Block[] } | { kind: "rule" }} Block */

/** @typedef {{ ids: Map<string, number>, depth: number }} Reading how often each id was given; lists and quotes that are open */

const DEEPEST = 20;
const FENCE = /^(`{3,}|~{3,})\s*([\w+-]*).*$/;
const HEADING = /^(#{1,6})\s+(.*?)(?:\s+#+)?\s*$/;
const ITEM = /^([-*+]|(\d{1,9})[.)])(\s+|$)/;
const RULE = /^(?:-{3,}|\*{3,}|_{3,})\s*$/;
const DIVIDER = /^\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

/** @param {string} text @returns {Block[]} */
export function blocks(text) {
  return read(text.replace(/\r\n?/g, "\n").split("\n"), { ids: new Map(), depth: 0 });
}

/** @param {string[]} lines @param {Reading} reading @returns {Block[]} */
function read(lines, reading) {
  reading.depth++;
  /** @type {Block[]} */
  const made = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) at++;
    else {
      const [block, next] = reading.depth > DEEPEST ? paragraph(lines, at) : one(lines, at, reading);
      made.push(block);
      at = next;
    }
  }
  reading.depth--;
  return made;
}

/** The block that begins at a line, and the line behind it.
 * @param {string[]} lines @param {number} at @param {Reading} reading @returns {[Block, number]} */
function one(lines, at, reading) {
  const line = lines[at].trimStart();
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: "heading", level: heading[1].length, id: idOf(heading[2], reading.ids), inside: inline(heading[2]) }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (ITEM.test(line)) return list(lines, at, reading);
  if (line.startsWith(">")) return quote(lines, at, reading);
  if (isTable(lines, at)) return table(lines, at);
  return paragraph(lines, at);
}

/** @param {string[]} lines @param {number} at @param {RegExpExecArray} fence @returns {[Block, number]} */
function fenced(lines, at, fence) {
  const indent = indentOf(lines[at]);
  let end = at + 1;
  while (end < lines.length && !lines[end].trimStart().startsWith(fence[1])) end++;
  const text = lines.slice(at + 1, end).map((line) => line.slice(Math.min(indent, indentOf(line))));
  return [{ kind: "code", language: fence[2], text: text.join("\n") }, end + 1];
}

/** @param {string[]} lines @param {number} at @param {Reading} reading @returns {[Block, number]} */
function quote(lines, at, reading) {
  let end = at;
  while (end < lines.length && lines[end].trimStart().startsWith(">")) end++;
  const inside = lines.slice(at, end).map((line) => line.trimStart().replace(/^> ?/, ""));
  return [{ kind: "quote", inside: read(inside, reading) }, end];
}

/** @param {string[]} lines @param {number} at @param {Reading} reading @returns {[Block, number]} */
function list(lines, at, reading) {
  const base = indentOf(lines[at]);
  const first = /** @type {RegExpExecArray} */ (ITEM.exec(lines[at].trimStart()));
  /** @type {Block[][]} */
  const items = [];
  while (at < lines.length) {
    const mark = ITEM.exec(lines[at].trimStart());
    if (!mark || indentOf(lines[at]) !== base || Boolean(mark[2]) !== Boolean(first[2]) || RULE.test(lines[at].trimStart())) break;
    const [inside, end] = itemLines(lines, at, base + mark[0].length);
    items.push(read(inside, reading));
    at = end;
  }
  return [{ kind: "list", start: first[2] ? Number(first[2]) : null, items }, at];
}

/** The lines of one item without its mark, and the line behind it. `body`: the column where its text begins.
 * @param {string[]} lines @param {number} at @param {number} body @returns {[string[], number]} */
function itemLines(lines, at, body) {
  const inside = [lines[at].slice(body)];
  let end = at + 1;
  for (; end < lines.length; end++) {
    const line = lines[end];
    const blank = !line.trim();
    if (blank ? !goesOn(lines, end, body) : indentOf(line) < Math.min(body, 2) && startsBlock(line)) break;
    if (!blank && indentOf(line) < body && (ITEM.test(line.trimStart()) || !lines[end - 1].trim())) break;
    inside.push(line.slice(Math.min(body, indentOf(line))));
  }
  return [inside, end];
}

/** Claims that behind blank lines the item goes on. @param {string[]} lines @param {number} at @param {number} body */
function goesOn(lines, at, body) {
  while (at < lines.length && !lines[at].trim()) at++;
  return at < lines.length && indentOf(lines[at]) >= Math.min(body, 2);
}

/** @param {string} line */
function startsBlock(line) {
  const text = line.trimStart();
  return ITEM.test(text) || HEADING.test(text) || FENCE.test(text) || text.startsWith(">") || text.startsWith("|");
}

/** @param {string[]} lines @param {number} at */
function isTable(lines, at) {
  return lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && DIVIDER.test(lines[at + 1].trim());
}

/** @param {string[]} lines @param {number} at @returns {[Block, number]} */
function table(lines, at) {
  const head = cells(lines[at]);
  const rows = [];
  let end = at + 2;
  for (; end < lines.length && lines[end].includes("|") && lines[end].trim(); end++) rows.push(cells(lines[end]));
  return [{ kind: "table", head: head.map(inline), rows: rows.map((row) => row.map(inline)) }, end];
}

/** The cells of a row. A `|` behind a backslash is text. @param {string} line @returns {string[]} */
function cells(line) {
  const bare = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  /** @type {string[]} */
  const made = [""];
  for (let at = 0; at < bare.length; at++) {
    if (bare[at] === "\\" && bare[at + 1] === "|") made[made.length - 1] += bare[++at];
    else if (bare[at] === "|") made.push("");
    else made[made.length - 1] += bare[at];
  }
  return made.map((cell) => cell.trim());
}

/** @param {string[]} lines @param {number} at @returns {[Block, number]} */
function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !startsBlock(lines[end])) end++;
  return [{ kind: "paragraph", inside: inline(lines.slice(at, end).map((line) => line.trim()).join("\n")) }, end];
}

/** @param {string} line */
function indentOf(line) {
  return line.length - line.trimStart().length;
}

/** The name by which links find a heading, as code hosts make it. @param {string} text @param {Map<string, number>} ids */
function idOf(text, ids) {
  const bare = plain(inline(text)).toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, "").trim().replace(/ /g, "-");
  const times = ids.get(bare) ?? 0;
  ids.set(bare, times + 1);
  return times ? `${bare}-${times}` : bare;
}

/** @param {Inline[]} parts @returns {string} */
export function plain(parts) {
  return parts.map((part) => ("text" in part ? part.text : plain(part.inside))).join("");
}

const MARK = /\\[!-/:-@[-`{-~]|`+|\*\*|\*|!?\[|<(?:https?|mailto):[^\s<>]+>/g;

/** @param {string} text @returns {Inline[]} */
export function inline(text) {
  /** @type {Inline[]} */
  const made = [];
  const say = (/** @type {string} */ more) => {
    const last = made[made.length - 1];
    if (last && last.kind === "text") last.text += more;
    else if (more) made.push({ kind: "text", text: more });
  };
  let at = 0;
  MARK.lastIndex = 0;
  for (let mark = MARK.exec(text); mark; mark = MARK.exec(text)) {
    say(text.slice(at, mark.index));
    const found = marked(text, mark.index, mark[0]);
    if (found) made.push(found[0]);
    else say(mark[0][0] === "\\" ? mark[0][1] : mark[0]);
    at = MARK.lastIndex = found ? found[1] : mark.index + mark[0].length;
  }
  say(text.slice(at));
  return made;
}

/** What a mark begins, and the place behind it; null: it is text.
 * @param {string} text @param {number} at @param {string} mark @returns {[Inline, number] | null} */
function marked(text, at, mark) {
  const from = at + mark.length;
  if (mark[0] === "\\") return null;
  if (mark[0] === "`") return codeSpan(text, from, mark);
  if (mark[0] === "*") return emphasis(text, from, mark);
  if (mark[0] === "<") return [{ kind: "link", to: mark.slice(1, -1), inside: [{ kind: "text", text: mark.slice(1, -1) }] }, from];
  return link(text, from, mark);
}

/** @param {string} text @param {number} from @param {string} mark @returns {[Inline, number] | null} */
function codeSpan(text, from, mark) {
  let end = text.indexOf(mark, from);
  while (end >= 0 && text[end + mark.length] === "`") {
    while (text[end] === "`") end++;
    end = text.indexOf(mark, end);
  }
  if (end < 0) return null;
  const inside = text.slice(from, end).replace(/\n/g, " ");
  const padded = inside.length > 2 && inside.startsWith(" ") && inside.endsWith(" ") && inside.trim();
  return [{ kind: "code", text: padded ? inside.slice(1, -1) : inside }, end + mark.length];
}

/** @param {string} text @param {number} from @param {string} mark @returns {[Inline, number] | null} */
function emphasis(text, from, mark) {
  if (!/\S/.test(text[from] ?? " ")) return null;
  const end = closing(text, from, mark);
  if (end <= from) return null;
  return [{ kind: mark === "**" ? "strong" : "em", inside: inline2(text.slice(from, end)) }, end + mark.length];
}

/** Where an emphasis ends: marks inside code do not count. @param {string} text @param {number} from @param {string} mark */
function closing(text, from, mark) {
  for (let at = from; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === "`") {
      const run = /** @type {RegExpExecArray} */ (/^`+/.exec(text.slice(at, at + 9)))[0];
      const span = codeSpan(text, at + run.length, run);
      at = span ? span[1] - 1 : at + run.length - 1;
    } else if (text.startsWith(mark, at) && /\S/.test(text[at - 1])) {
      if (mark === "**" || text[at + 1] !== "*") return at;
      at++;
    }
  }
  return -1;
}

/** `inline` uses one shared search; what it calls for the inside of a mark must not move it. @param {string} text @returns {Inline[]} */
function inline2(text) {
  const kept = MARK.lastIndex;
  const made = inline(text);
  MARK.lastIndex = kept;
  return made;
}

/** @param {string} text @param {number} from @param {string} mark @returns {[Inline, number] | null} */
function link(text, from, mark) {
  const end = bracket(text, from);
  if (end < 0 || text[end + 1] !== "(") return null;
  const last = text.indexOf(")", end + 2);
  if (last < 0) return null;
  const to = text.slice(end + 2, last).trim().replace(/^<|>$/g, "").replace(/\s+"[^"]*"$/, "");
  if (/\s/.test(to)) return null;
  if (mark === "![") return [{ kind: "picture", text: text.slice(from, end) }, last + 1];
  return [{ kind: "link", to, inside: inline2(text.slice(from, end)) }, last + 1];
}

/** Where the bracket that is open at `from` closes, -1: nowhere. @param {string} text @param {number} from */
function bracket(text, from) {
  let open = 1;
  for (let at = from; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === "[") open++;
    else if (text[at] === "]" && !--open) return at;
  }
  return -1;
}
