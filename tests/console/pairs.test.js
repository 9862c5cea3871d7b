// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { folded, isEqual, pairName, pairsOf, reasonsOf } from "../../Middleware/api/console/static/compare/pairs.js";

const text = (/** @type {string} */ sum) => ({ ref: "n", chars: 3, left_out: 0, start: "", sum });
/** @param {number} number @param {string} title @param {string} [sum] @param {object} [more] @returns {any} */
const node = (number, title, sum = "x", more = {}) => ({
  number, title, type: "Standard", depth: 0, state: "done", output: text(sum), calls: [], ...more,
});
const names = (/** @type {any[]} */ pairs) => pairs.map(({ a, b }) => `${a?.title ?? "-"}${a?.number ?? ""}:${b?.title ?? "-"}${b?.number ?? ""}`);

test("nodes of one title stand beside each other, those of one side alone where they ran", () => {
  const a = [node(1, "Draft"), node(2, "Critic"), node(3, "Answer")];
  const b = [node(1, "Plan"), node(2, "Draft"), node(3, "Answer"), node(4, "Notes")];
  assert.deepEqual(names(pairsOf(a, b)), ["-:Plan1", "Draft1:Draft2", "Critic2:-", "Answer3:Answer3", "-:Notes4"]);
});

test("the k-th of a title with the k-th", () => {
  const a = [node(1, "Say"), node(2, "Say")];
  const b = [node(2, "Say"), node(3, "Say")];
  assert.deepEqual(names(pairsOf(a, b)), ["Say1:Say2", "Say2:Say3"]);
  assert.deepEqual(names(pairsOf([node(1, "Say")], [node(1, "Say"), node(1, "Say")])), ["Say1:Say1", "-:Say1"]);
});

test("nodes of other titles by their number", () => {
  assert.deepEqual(names(pairsOf([node(1, "Old")], [node(1, "New")])), ["Old1:New1"]);
});

test("equal is told by the sums of what was sent and of what came", () => {
  const call = (/** @type {string} */ body, raw = "r") => ({ calls: [{ kind: "model", body: text(body), raw: text(raw) }] });
  const pair = (/** @type {object} */ a, /** @type {object} */ b) => ({ a: node(1, "A", "x", a), b: node(1, "A", "x", b) });
  assert.equal(isEqual(pair(call("p"), call("p"))), true);
  assert.equal(isEqual(pair(call("p"), call("q"))), false);
  assert.equal(isEqual(pair(call("p", "r"), call("p", "s"))), false);
  assert.equal(isEqual({ a: node(1, "A", "x"), b: node(1, "A", "y") }), false);
  assert.equal(isEqual({ a: node(1, "A"), b: null }), false);
});

test("equal neighbours are one piece", () => {
  const pairs = pairsOf(
    [node(1, "A"), node(2, "B"), node(3, "C", "x"), node(4, "D")],
    [node(1, "A"), node(2, "B"), node(3, "C", "y"), node(4, "D")],
  );
  const parts = folded(pairs).map((part) => (Array.isArray(part) ? part.map(pairName) : pairName(part)));
  assert.deepEqual(parts, [["1 A", "2 B"], "3 C", ["4 D"]]);
});

test("why two nodes are not equal", () => {
  const call = (/** @type {object} */ more = {}) => ({ kind: "model", endpoint: "Big", model: "m", body: text("p"), raw: text("r"), ...more });
  const asked = (/** @type {object} */ more = {}, /** @type {object} */ of = {}, sum = "x") => node(1, "A", sum, { preset: "Warm", calls: [call(more)], ...of });
  const why = (/** @type {any} */ b, prompt = false, /** @type {any} */ a = asked()) => reasonsOf({ a, b }, prompt).join("; ");
  assert.equal(why(null), "only in A");
  assert.equal(why(asked(), false, null), "only in B");
  assert.equal(why(asked({ model: "n", body: text("q") })), "model m → n");
  assert.equal(why(asked({ model: "n", body: text("q") }), true), "model m → n; another prompt");
  assert.equal(why(asked({ endpoint: "Small" }, { preset: "Cold" })), "endpoint Big → Small; preset Warm → Cold");
  assert.equal(why(asked({ body: text("q") })), "other settings");
  assert.equal(why(asked({}, {}, "y")), "same prompt, another text");
  assert.equal(why(asked({}, { state: "failed" })), "done in A, failed in B");
  assert.equal(why(asked({}, { state: "kept" }, "y")), "same prompt, another text");
  assert.equal(why(node(1, "A", "y"), false, node(1, "A")), "another text");
});
