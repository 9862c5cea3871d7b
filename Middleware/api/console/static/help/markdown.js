// @ts-check
// Markdown of our docs -> plain data. What it does not know stays text. Makes no elements: prose.js does.

/** @typedef {{ kind: "text", text: string } | { kind: "code", text: string } | { kind: "picture", text: string }
 *   | { kind: "strong" | "em", inside: Inline[] } | { kind: "link", to: string, inside: Inline[] }} Inline */
/** @typedef {{ kind: "heading", level: number, id: string, inside: Inline[] } | { kind: "paragraph", inside: Inline[] }
 *   | { kind: "list", start: number | null, items: Block[][] } | { kind: "code", text: string }
 *   | { kind: "table", head: Inline[][], rows: Inline[][][] } | { kind: "quote", inside: Block[] } | { kind: "rule" }}
 *   Block */

/**
 * @typedef {{ ids: Map<string, number>, depth: number }} Reading how often each id was given; lists and quotes that are
 *   open
 */

const DEEPEST = 20;
const ITEM = /^\s*([-*+]|(\d{1,9})[.)])(\s+|$)/;
const RULE = /^\s*(?:-{3,}|\*{3,}|_{3,})\s*$/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
/** How a block begins, and what takes it from the lines.
 * @type {[RegExp, (lines: string[], begin: RegExpExecArray, reading: Reading) => Block][]} */
const BEGINS = [
  [/^\s*(`{3,}|~{3,})/, code],
  [/^\s*(#{1,6})\s+(.*?)(?:\s+#+)?\s*$/, heading],
  [RULE, rule],
  [ITEM, list],
  [/^\s*>/, quote],
];

/** @param {string} text @returns {Block[]} */
export function blocks(text) {
  return read(text.replace(/\r\n?/g, "\n").split("\n"), { ids: new Map(), depth: 0 });
}

/** Takes all lines. @param {string[]} lines @param {Reading} reading @returns {Block[]} */
function read(lines, reading) {
  reading.depth++;
  /** @type {Block[]} */
  const made = [];
  while (lines.length) {
    if (!lines[0].trim()) lines.shift();
    else made.push(reading.depth > DEEPEST ? paragraph(lines) : block(lines, reading));
  }
  reading.depth--;
  return made;
}

/** Takes the block that stands first. @param {string[]} lines @param {Reading} reading @returns {Block} */
function block(lines, reading) {
  for (const [begins, take] of BEGINS) {
    const begin = begins.exec(lines[0]);
    if (begin) return take(lines, begin, reading);
  }
  return lines[0].includes("|") && DIVIDER.test(lines[1] ?? "") ? table(lines) : paragraph(lines);
}

/** @param {string} line */
const beginsBlock = (line) => /^\s*\|/.test(line) || BEGINS.some(([begins]) => begins.test(line));

/**
 * Takes the first lines, as long as they fit.
 * @param {string[]} lines
 * @param {(line: string, at: number) => unknown} fits
 */
function taken(lines, fits) {
  const end = lines.findIndex((line, at) => !fits(line, at));
  return lines.splice(0, end < 0 ? lines.length : end);
}

/** @param {string} line */
const indentOf = (line) => line.length - line.trimStart().length;

/** Without its first columns, as far as they are white. @param {string} line @param {number} columns */
const outdented = (line, columns) => line.slice(Math.min(columns, indentOf(line)));

/** @param {string[]} lines @param {RegExpExecArray} begin @returns {Block} */
function code(lines, [, fence]) {
  const indent = indentOf(String(lines.shift()));
  const text = taken(lines, (line) => !line.trimStart().startsWith(fence));
  lines.shift();
  return { kind: "code", text: text.map((line) => outdented(line, indent)).join("\n") };
}

/** @param {string[]} lines @param {RegExpExecArray} begin @param {Reading} reading @returns {Block} */
function heading(lines, [, marks, text], { ids }) {
  lines.shift();
  return { kind: "heading", level: marks.length, id: idOf(text, ids), inside: inline(text) };
}

/** @param {string[]} lines @returns {Block} */
function rule(lines) {
  lines.shift();
  return { kind: "rule" };
}

/** @param {string[]} lines @param {unknown} begin @param {Reading} reading @returns {Block} */
function quote(lines, begin, reading) {
  const inside = taken(lines, (line) => /^\s*>/.test(line));
  return {
    kind: "quote",
    inside: read(
      inside.map((line) => line.replace(/^\s*> ?/, "")),
      reading,
    ),
  };
}

/** @param {string[]} lines @param {RegExpExecArray} first @param {Reading} reading @returns {Block} */
function list(lines, first, reading) {
  const indent = indentOf(lines[0]);
  const items = [];
  for (let item = /** @type {RegExpExecArray | null} */ (first); item; item = ITEM.exec(lines[0] ?? "")) {
    if (indentOf(lines[0]) !== indent || Boolean(item[2]) !== Boolean(first[2]) || RULE.test(lines[0])) break;
    items.push(read(itemLines(lines, item[0].length), reading));
  }
  return { kind: "list", start: first[2] ? Number(first[2]) : null, items };
}

/**
 * The lines of one item without its mark. `body`: the column where its text begins.
 * @param {string[]} lines
 * @param {number} body
 */
function itemLines(lines, body) {
  const least = Math.min(body, 2);
  const goesOn = (/** @type {string} */ line, /** @type {number} */ at) => {
    if (!line.trim()) return indentOf(lines.slice(at).find((next) => next.trim()) ?? "") >= least;
    if (indentOf(line) < least && beginsBlock(line)) return false;
    return indentOf(line) >= body || !(ITEM.test(line) || !lines[at - 1].trim());
  };
  const [first, ...others] = taken(lines, (line, at) => at === 0 || goesOn(line, at));
  return [first.slice(body), ...others.map((line) => outdented(line, body))];
}

/** @param {string[]} lines @returns {Block} */
function table(lines) {
  const [head] = lines.splice(0, 2);
  const rows = taken(lines, (line) => line.includes("|"));
  return { kind: "table", head: cells(head), rows: rows.map(cells) };
}

/** The cells of a row. A `|` behind a backslash is text. @param {string} line */
function cells(line) {
  const bare = line.trim().replace(/^\||(?<!\\)\|$/g, "");
  return bare.split(/(?<!\\)\|/).map((cell) => inline(cell.replaceAll("\\|", "|").trim()));
}

/** @param {string[]} lines @returns {Block} */
function paragraph(lines) {
  const text = taken(lines, (line, at) => at === 0 || (line.trim() && !beginsBlock(line)));
  return { kind: "paragraph", inside: inline(text.map((line) => line.trim()).join("\n")) };
}

/**
 * The name by which links find a heading, as code hosts make it.
 * @param {string} text
 * @param {Map<string, number>} ids
 */
function idOf(text, ids) {
  const bare = plain(inline(text))
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_ -]/gu, "")
    .trim()
    .replace(/ /g, "-");
  const times = ids.get(bare) ?? 0;
  ids.set(bare, times + 1);
  return times ? `${bare}-${times}` : bare;
}

/** @param {Inline[]} parts @returns {string} */
export function plain(parts) {
  return parts.map((part) => ("text" in part ? part.text : plain(part.inside))).join("");
}

/**
 * As text: a line for each block, item and row, so that what is found in a line belongs together.
 * @param {Block[]} made
 * @returns {string}
 */
export const textOf = (made) =>
  made
    .map((block) => {
      if (block.kind === "table")
        return [block.head, ...block.rows].map((row) => row.map(plain).filter(Boolean).join(", ")).join("\n");
      if (block.kind === "list") return block.items.map(textOf).join("\n");
      if (block.kind === "quote") return textOf(block.inside);
      return "inside" in block ? plain(block.inside).replace(/\s+/g, " ") : "text" in block ? block.text : "";
    })
    .join("\n");

/**
 * A mark inside a line: an escape, code, an address, a link or picture; else one that may begin or end an emphasis, or
 * is text.
 */
const MARK = new RegExp(
  [
    /\\(?<escaped>[!-/:-@[-`{-~])/,
    /(?<ticks>`+)(?!`)(?<code>[^]*?[^`])\k<ticks>(?!`)/,
    /<(?<address>(?:https?|mailto):[^\s<>]+)>/,
    /(?<picture>!?)\[(?<label>(?:\\[^]|\[[^\]]*\]|[^[\]\\])*)\]\(\s*<?(?<to>[^\s)>]*)>?(?:\s+"[^")]*")?\s*\)/,
    /`+|\*\*?/,
  ]
    .map(({ source }) => source)
    .join("|"),
  "g",
);

/** @param {string} text @returns {Inline[]} */
export function inline(text) {
  /** @type {Inline[]} */
  const made = [];
  /** Emphases that are open, with their places in `made`. @type {{mark: string, place: number}[]} */
  const open = [];
  let at = 0;
  const say = (/** @type {string} */ more) => more && made.push({ kind: "text", text: more });
  for (const found of text.matchAll(MARK)) {
    say(text.slice(at, found.index));
    at = found.index + found[0].length;
    const { escaped, code: inCode, address, picture, label, to } = found.groups ?? {};
    if (escaped) say(escaped);
    else if (inCode) made.push({ kind: "code", text: inCode.replace(/\n/g, " ").replace(/^ (.*\S.*) $/, "$1") });
    else if (address) made.push({ kind: "link", to: address, inside: [{ kind: "text", text: address }] });
    else if (label !== undefined)
      made.push(picture ? { kind: "picture", text: label } : { kind: "link", to, inside: inline(label) });
    else emphasis(found[0], /\S/.test(text[found.index - 1] ?? ""), /\S/.test(text[at] ?? ""));
  }
  say(text.slice(at));
  return made;

  /** @param {string} mark @param {boolean} behindWord @param {boolean} beforeWord */
  function emphasis(mark, behindWord, beforeWord) {
    const begun = open.findLastIndex((one) => one.mark === mark);
    if (mark[0] === "*" && behindWord && begun >= 0 && made.length > open[begun].place + 1) {
      const [, ...inside] = made.splice(open[begun].place);
      made.push({ kind: mark === "**" ? "strong" : "em", inside });
      open.length = begun;
    } else {
      if (mark[0] === "*" && beforeWord) open.push({ mark, place: made.length });
      say(mark);
    }
  }
}

/**
 * What a page says of a name that it writes in code: its row of a table, with the heads, and the paragraphs, items and
 * tables that are about it, the first of a section behind its heading.
 * @param {Block[]} made
 * @param {string} name
 * @returns {{ row: { head: Inline[], cell: Inline[] }[] | null, more: Block[] }}
 */
export function saidOf(made, name) {
  /** @type {(parts: Inline[]) => boolean} */
  const names = (parts) =>
    parts.some((part) => (part.kind === "code" ? part.text === name : "inside" in part && names(part.inside)));
  /** @type {ReturnType<typeof saidOf>} */
  const said = { row: null, more: [] };
  /** @type {Inline[]} */
  let under = [];
  for (const block of made) {
    if (block.kind === "heading" && block.level > 1)
      under = [{ kind: "strong", inside: block.inside }, { kind: "text", text: ": " }];
    const count = said.more.length;
    const row = block.kind === "table" && block.rows.find(([first]) => names(first));
    if (row) said.row ??= row.map((cell, at) => ({ head: block.head[at], cell }));
    else if (block.kind === "table" ? names(block.head[0]) : block.kind === "paragraph" && names(block.inside))
      said.more.push(block);
    else if (block.kind === "list") for (const item of block.items) said.more.push(...saidOf(item, name).more);
    else if (block.kind === "quote") said.more.push(...saidOf(block.inside, name).more);
    const first = said.more[count];
    if (first?.kind !== "paragraph") continue;
    said.more[count] = { ...first, inside: [...under, ...first.inside] };
    under = [];
  }
  return said;
}
