// @ts-check
// A JSON text that is being typed, as a tree, and what stands at a place of it. Pure; never fails: what is
// missing is left out. Comments and trailing commas are read as the server reads them.

/**
 * @typedef {{kind: string, start: number, end: number}} Token kind: one of `{ } [ ] , :`, `string`, `word`, `comment`
 * @typedef {{key: string, keyStart: number, keyEnd: number, colon: boolean, value: Tree | null}} Member
 * @typedef {{kind: "object" | "array" | "value", start: number, end: number, members: Member[], items: Tree[],
 *   value: unknown, parent: Tree | null, key: string | number | null}} Tree
 * @typedef {"key" | "colon" | "value" | "comma"} Wants
 * @typedef {{token: Token, role: "key" | "value" | "mark", member: Member | null, holder: Tree | null, after: {holder: Tree | null, wants: Wants, member: Member | null}}} Spot
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

/** Reads the tokens one after the other; holders that are open stand in a chain of parents. */
class Reader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    /** @type {Tree | null} */
    this.root = null;
    /** @type {Tree | null} */
    this.holder = null;
    /** @type {Wants} */
    this.wants = "value";
    /** @type {Member | null} */
    this.member = null;
    /** @type {Spot[]} */
    this.spots = [];
  }

  /** @param {Token} token */
  take(token) {
    const holder = this.holder;
    const role = this.#role(token);
    let member = this.member;
    if (role === "key") member = this.#begin(token);
    else if (role === "value") this.#put(token);
    else this.#mark(token);
    const after = { holder: this.holder, wants: this.wants, member: this.member };
    this.spots.push({ token, role, member, holder, after });
  }

  /** @param {Token} token @returns {Spot["role"]} */
  #role({ kind }) {
    if (kind === "string" || kind === "word")
      return this.holder?.kind === "object" && this.wants !== "value" ? "key" : "value";
    return kind === "{" || kind === "[" ? "value" : "mark";
  }

  /** @param {Token} token @returns {Member} */
  #begin(token) {
    const key = String(valueOf(this.text.slice(token.start, token.end)));
    this.member = { key, keyStart: token.start, keyEnd: token.end, colon: false, value: null };
    this.holder?.members.push(this.member);
    this.wants = "colon";
    return this.member;
  }

  /** @param {Token} token */
  #put({ kind, start, end }) {
    const opens = kind === "{" || kind === "[";
    /** @type {Tree} */
    const tree = {
      kind: kind === "{" ? "object" : kind === "[" ? "array" : "value",
      start,
      end: opens ? this.text.length : end,
      members: [],
      items: [],
      value: opens ? undefined : valueOf(this.text.slice(start, end)),
      parent: this.holder,
      key: this.holder?.kind === "object" ? (this.member?.key ?? null) : (this.holder?.items.length ?? null),
    };
    if (!this.holder) this.root ??= tree;
    else if (this.holder.kind === "array") this.holder.items.push(tree);
    else if (this.member && !this.member.value) this.member.value = tree;
    this.wants = "comma";
    if (opens) {
      this.holder = tree;
      this.wants = kind === "{" ? "key" : "value";
      this.member = null;
    }
  }

  /** @param {Token} token */
  #mark({ kind, end }) {
    if (kind === ":" && this.member) {
      this.member.colon = true;
      this.wants = "value";
    } else if (kind === ",") {
      this.member = null;
      this.wants = this.holder?.kind === "object" ? "key" : "value";
    } else if (kind === "}" || kind === "]") {
      const wanted = kind === "}" ? "object" : "array";
      let closed = this.holder;
      while (closed && closed.kind !== wanted) closed = closed.parent;
      if (!closed) return;
      closed.end = end;
      this.holder = closed.parent;
      this.member = this.holder?.kind === "object" ? (this.holder.members.at(-1) ?? null) : null;
      this.wants = "comma";
    }
  }
}

/**
 * @param {string} text
 * @returns {{root: Tree | null, spots: Spot[]}}
 */
export function read(text) {
  const reader = new Reader(text);
  for (const token of tokensOf(text)) if (token.kind !== "comment") reader.take(token);
  return { root: reader.root, spots: reader.spots };
}

/**
 * What may be written at a place: a key, a value, or nothing.
 * `from`, `to`: what would be replaced; `typed`: what stands there before the place, without its quote.
 * @param {string} text
 * @param {number} at
 * @returns {{role: "key" | "value" | "none", from: number, to: number, typed: string, inString: boolean,
 *   holder: Tree | null, member: Member | null, root: Tree | null}}
 */
export function placeAt(text, at) {
  const { root, spots } = read(text);
  const nothing = { role: /** @type {const} */ ("none"), from: at, to: at, typed: "", inString: false, holder: null, member: null, root };
  if (tokensOf(text).some(({ kind, start, end }) => kind === "comment" && start < at && at <= end)) return nothing;
  const spot = spots.filter(({ token }) => token.start < at).at(-1);
  if (!spot) return nothing;
  const { token } = spot;
  if (touches(text, token, at) && spot.role !== "mark") {
    const inString = token.kind === "string";
    const typed = text.slice(token.start + (inString ? 1 : 0), at);
    return { role: spot.role, from: token.start, to: token.end, typed, inString, holder: spot.holder, member: spot.member, root };
  }
  const { holder, wants, member } = spot.after;
  const role = wants === "key" || wants === "value" ? wants : "none";
  return { ...nothing, role, holder, member };
}

/** @param {string} text @param {Token} token @param {number} at */
function touches(text, token, at) {
  if (token.kind === "word") return at <= token.end;
  const closed = token.end - token.start > 1 && text[token.end - 1] === '"';
  return token.kind === "string" && (closed ? at < token.end : at <= token.end);
}

/**
 * The list of nodes of a workflow's text: `nodes` of the object, or the list itself.
 * @param {Tree | null} root
 * @returns {Tree[]}
 */
export function nodesIn(root) {
  const list = root?.kind === "array" ? root : valueAt(root, "nodes");
  return list?.kind === "array" ? list.items : [];
}

/** @param {Tree | null | undefined} tree @param {string} key @returns {Tree | null} the last one counts */
export function valueAt(tree, key) {
  return tree?.members.filter((member) => member.key === key).at(-1)?.value ?? null;
}

/**
 * The node of a workflow that holds a part of the tree; null outside.
 * @param {Tree | null} root
 * @param {Tree | null} part
 */
export function nodeHolding(root, part) {
  const nodes = nodesIn(root);
  for (let tree = part; tree; tree = tree.parent) if (nodes.includes(tree)) return { node: tree, number: nodes.indexOf(tree) + 1 };
  return null;
}
