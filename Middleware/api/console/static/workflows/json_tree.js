// @ts-check
// A JSON text that is being typed, as a tree, and what stands at a place of it. Pure; never fails: what is
// missing is left out. Comments and trailing commas are read as the server reads them.

/**
 * @typedef {{kind: string, start: number, end: number}} Token kind: one of `{ } [ ] , :`, `string`, `word`, `comment`
 * @typedef {{key: string, colon: boolean, value: Tree | null, start: number, end: number, comma: number | null}} Member
 *   of an object, or an item of a list, which has no key; `start`, `end`: of key and value; `comma`: of the one behind
 *   it
 * @typedef {{kind: "object" | "array" | "value", members: Member[], value: unknown, parent: Tree | null, key: string,
 *   start: number, end: number, closed: boolean}} Tree `closed`: its last bracket is there
 * @typedef {"key" | "colon" | "value" | "comma"} Wants
 * @typedef {{token: Token, role: "key" | "value", member: Member | null, holder: Tree | null, wanted: Wants}} Spot
 *   `wanted`: what the text wanted there
 */

const TOKEN = /"(?:[^"\\\n]|\\.)*"?|\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)|[{}[\],:]|[^\s{}[\],:"/]+|\//g;

/**
 * The tokens of a text, comments too; white space stands between them.
 * @param {string} text
 * @returns {Token[]}
 */
export function tokensOf(text) {
  return [...text.matchAll(TOKEN)].map((match) => {
    const word = match[0];
    const kind =
      word[0] === '"' ? "string" : /^\/[/*]/.test(word) ? "comment" : /^[{}[\],:]$/.test(word) ? word : "word";
    return { kind, start: match.index, end: match.index + word.length };
  });
}

/** @param {string} word @returns {unknown} the value of a string, number or word; the word itself when it is none */
function valueOf(word) {
  try {
    return JSON.parse(word);
  } catch {
    return word.replace(/^"|"$/g, "");
  }
}

/** Reads tokens one after the other; holders that are open stand in a chain of parents. */
class Reader {
  /** @type {Tree | null} */
  root = null;
  /** @type {Tree | null} */
  holder = null;
  /** @type {Member | null} */
  member = null;
  /** @type {Wants} */
  wants = "value";

  /**
   * @param {Token} token
   * @param {string} word its text
   * @returns {Spot | null} null for marks between keys and values
   */
  take(token, word) {
    const { holder, wants: wanted } = this;
    const opens = token.kind === "{" || token.kind === "[";
    if (!opens && token.kind !== "string" && token.kind !== "word") return this.#mark(token);
    const role = !opens && holder?.kind === "object" && wanted !== "value" ? "key" : "value";
    if (role === "key" || holder?.kind === "array") {
      const { start, end } = token;
      this.member = {
        key: role === "key" ? String(valueOf(word)) : "",
        colon: false,
        value: null,
        start,
        end,
        comma: null,
      };
      holder?.members.push(this.member);
    }
    const { member } = this;
    if (role === "key") this.wants = "colon";
    else this.#put(opens ? (token.kind === "{" ? "object" : "array") : "value", word, token);
    return { token, role, member, holder, wanted };
  }

  /** @param {Tree["kind"]} kind @param {string} word @param {Token} token */
  #put(kind, word, { start, end }) {
    const { holder, member } = this;
    /** @type {Tree} */
    const tree = {
      kind,
      members: [],
      value: kind === "value" ? valueOf(word) : undefined,
      parent: holder,
      key: member?.key ?? "",
      start,
      end,
      closed: kind === "value",
    };
    if (!holder) this.root ??= tree;
    else if (member && !member.value) Object.assign(member, { value: tree, end });
    this.wants = "comma";
    if (kind !== "value") this.#goTo(tree, kind === "object" ? "key" : "value", null);
  }

  /** @param {Token} token @returns {null} */
  #mark({ kind, start, end }) {
    if (kind === ",") {
      const last = this.holder?.members.at(-1);
      if (last) last.comma ??= start;
      this.#goTo(this.holder, this.holder?.kind === "object" ? "key" : "value", null);
    } else if (kind === ":" && this.member) {
      Object.assign(this.member, { colon: true, end });
      this.wants = "value";
    } else if (kind !== ":") {
      let closed = this.holder;
      while (closed && closed.kind !== (kind === "}" ? "object" : "array")) closed = closed.parent;
      if (closed) this.#close(closed, end);
    }
    return null;
  }

  /** @param {Tree} tree @param {number} end */
  #close(tree, end) {
    const member = tree.parent?.members.at(-1) ?? null;
    Object.assign(tree, { end, closed: true });
    if (member?.value === tree) member.end = end;
    this.#goTo(tree.parent, "comma", member);
  }

  /** @param {Tree | null} holder @param {Wants} wants @param {Member | null} member */
  #goTo(holder, wants, member) {
    Object.assign(this, { holder, wants, member });
  }
}

/**
 * @param {string} text @param {Token[]} [tokens]
 * @returns {{root: Tree | null, spots: Spot[]}} `spots`: where keys and values stand
 */
export function read(text, tokens = tokensOf(text)) {
  const reader = new Reader();
  const spots = tokens
    .filter(({ kind }) => kind !== "comment")
    .flatMap((token) => reader.take(token, text.slice(token.start, token.end)) ?? []);
  return { root: reader.root, spots };
}

/**
 * What may be written at a place: a key or a value; null where neither may stand.
 * `from`, `to`: what would be replaced; `typed`: what stands there before the place, without its quote.
 * @param {string} text
 * @param {number} at
 * @returns {{role: "key" | "value", from: number, to: number, typed: string, inString: boolean,
 *   holder: Tree | null, member: Member | null, root: Tree | null} | null}
 */
export function placeAt(text, at) {
  const tokens = tokensOf(text);
  const touched = tokens.find((token) => touches(text, token, at));
  const token = touched ?? { kind: "word", start: at, end: at }; // what is about to be typed
  if (!touched) tokens.splice(tokens.filter(({ start }) => start < at).length, 0, token);
  const { root, spots } = read(text, tokens);
  const spot = spots.find((one) => one.token === token);
  if (!spot || (!touched && spot.wanted !== spot.role)) return null;
  const inString = token.kind === "string";
  const { role, holder, member } = spot;
  return {
    role,
    from: token.start,
    to: token.end,
    typed: text.slice(token.start + (inString ? 1 : 0), at),
    inString,
    holder,
    member,
    root,
  };
}

/** @param {string} text @param {Token} token @param {number} at */
function touches(text, { kind, start, end }, at) {
  const closed = kind === "string" && end - start > 1 && text[end - 1] === '"';
  return /\w/.test(kind) && start < at && (closed ? at < end : at <= end);
}

/**
 * The list of nodes of a workflow's text: `nodes` of the object, or the list itself.
 * @param {Tree | null} root
 * @returns {Tree[]}
 */
export function nodesIn(root) {
  const list = root?.kind === "array" ? root : valueAt(root, "nodes");
  return list?.kind === "array" ? list.members.flatMap(({ value }) => value ?? []) : [];
}

/** @param {Tree | null | undefined} tree @param {string} key @returns {Tree | null} the last one counts */
export function valueAt(tree, key) {
  return tree?.members.findLast((member) => member.key === key)?.value ?? null;
}

/**
 * The node of a workflow that holds a part of the tree; null outside.
 * @param {Tree | null} root
 * @param {Tree | null} part
 */
export function nodeHolding(root, part) {
  const nodes = nodesIn(root);
  for (let tree = part; tree; tree = tree.parent)
    if (nodes.includes(tree)) return { node: tree, number: nodes.indexOf(tree) + 1 };
  return null;
}

// --- laid out: two spaces a level, a member a line. Only white space changes; comments, the order of keys and single
// empty lines stay ---

const LONGEST_LINE = 80;
const CLOSING = /** @type {Record<string, string>} */ ({ "{": "}", "[": "]" });

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
