// @ts-check
// Which node of one run stands beside which of the other, and what differs. Pure.
import { stateWords } from "../shared/words.js";

/**
 * @typedef {import("../shared/types.js").Node} Node
 * @typedef {import("../shared/types.js").Ref} Ref
 * @typedef {{a: Node | null, b: Node | null}} Pair
 * @typedef {{node: Pair, equal: boolean}} Compared
 */

const nameOf = (/** @type {Node} */ { title, type }) => title || type;

/**
 * Nodes are matched by title, then by number, the k-th with the k-th; those of one side alone stand where they ran.
 * @param {Node[]} a @param {Node[]} b @returns {Pair[]}
 */
export function pairsOf(a, b) {
  const partner = new Map(/** @type {[Node, Node][]} */ ([]));
  const taken = new Set(/** @type {Node[]} */ ([]));
  const match = (/** @type {(one: Node) => string} */ key) => {
    for (const one of a) {
      if (partner.has(one)) continue;
      const other = b.find((found) => !taken.has(found) && key(found) === key(one));
      if (other) (partner.set(one, other), taken.add(other));
    }
  };
  match((one) => `${one.depth} ${nameOf(one)}`);
  match((one) => `${one.depth} ${one.number}`);
  const left = b.filter((one) => !taken.has(one));
  const pairs = /** @type {Pair[]} */ ([]);
  for (const one of a) {
    const other = partner.get(one) ?? null;
    while (other && left.length && b.indexOf(left[0]) < b.indexOf(other))
      pairs.push({ a: null, b: /** @type {Node} */ (left.shift()) });
    pairs.push({ a: one, b: other });
  }
  return [...pairs, ...left.map((one) => ({ a: null, b: one }))];
}

/** The call whose text is the node's. @param {Node | null} node */
export const lastCall = (node) => node?.calls.filter(({ kind }) => kind === "model").at(-1) ?? null;

/** @param {Ref | null | undefined} a @param {Ref | null | undefined} b */
export const isSame = (a, b) =>
  (a?.sum ?? null) === (b?.sum ?? null) && (a?.chars ?? 0) === (b?.chars ?? 0);

/** Whether both sent and gave the same; times do not count. @param {Pair} pair */
export function isEqual({ a, b }) {
  if (!a || !b) return false;
  const same = (/** @type {(node: Node) => Ref | null | undefined} */ text) => isSame(text(a), text(b));
  return (
    a.calls.length === b.calls.length &&
    (a.state === "kept" || b.state === "kept" || a.state === b.state) &&
    same(({ output }) => output) &&
    a.calls.every(({ body, raw }, k) => isSame(body, b.calls[k].body) && isSame(raw, b.calls[k].raw))
  );
}

/**
 * Neighbours that are equal are one piece.
 * @param {Pair[]} pairs @returns {(Pair | Pair[])[]} a list: equal ones
 */
export function folded(pairs) {
  const made = /** @type {(Pair | Pair[])[]} */ ([]);
  for (const pair of pairs) {
    const last = made.at(-1);
    if (!isEqual(pair)) made.push(pair);
    else if (Array.isArray(last)) last.push(pair);
    else made.push([pair]);
  }
  return made;
}

/** @param {string} what @param {string | null} [a] @param {string | null} [b] */
const other = (what, a, b) => (a ?? "") !== (b ?? "") && `${what} ${a || "none"} → ${b || "none"}`;

/**
 * Why the two are not equal, in words. `prompt`: whether they asked their models something else.
 * @param {Pair} pair @param {boolean} prompt @returns {string[]}
 */
export function reasonsOf({ a, b }, prompt) {
  if (!a || !b) return [a ? "only in A" : "only in B"];
  const [one, two] = [lastCall(a), lastCall(b)];
  const kept = a.state === "kept" || b.state === "kept";
  const reasons = [
    !kept && a.state !== b.state && `${stateWords(a.state)} in A, ${stateWords(b.state)} in B`,
    other("endpoint", one?.endpoint, two?.endpoint),
    other("model", one?.model, two?.model),
    other("preset", a.preset, b.preset),
    prompt && "another prompt",
  ].filter((reason) => reason !== false);
  if (reasons.length) return reasons;
  if (!isSame(one?.body, two?.body)) return ["other settings"];
  return [isSame(a.output, b.output) ? "other calls" : one ? "same prompt, another text" : "another text"];
}

/** `3 Critic`. @param {Pair} pair */
export function pairName({ a, b }) {
  const one = /** @type {Node} */ (b ?? a);
  return `${one.number} ${nameOf(one)}`;
}
