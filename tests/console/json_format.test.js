import assert from "node:assert/strict";
import { test } from "node:test";
import { layoutOf, tokensOf } from "../../Middleware/api/console/static/workflows/json_tree.js";

/** The text as it stands once it is laid out; null where there is no layout. */
const formatted = (text) => {
  let [done, at] = ["", 0];
  const changes = layoutOf(text);
  for (const { from, to, insert } of changes ?? []) [done, at] = [done + text.slice(at, from) + insert, to];
  return changes && done + text.slice(at);
};
const words = (text) => tokensOf(text).map(({ start, end }) => text.slice(start, end));

test("two spaces a level, a member a line", () => {
  assert.equal(formatted('{"nodes":[{"title":"A","n":1}\n]}'), '{\n  "nodes": [\n    { "title": "A", "n": 1 }\n  ]\n}\n');
  assert.equal(formatted('{"nodes":[{"title":"A",\n"n":1}]}'), '{\n  "nodes": [\n    {\n      "title": "A",\n      "n": 1\n    }\n  ]\n}\n');
});

test("comments stay where they stand: behind their line, or on a line of their own", () => {
  const text = '{ // first\n"a":1, // why\n      // alone\n/* block */ "b":2 }';
  assert.equal(formatted(text), '{ // first\n  "a": 1, // why\n  // alone\n  /* block */ "b": 2\n}\n');
});

test("short lists that stood on a line stay on it; empty holders are one word", () => {
  assert.equal(formatted('{"a":[1,2,3],\n"b":[  ],"c":{\n}}'), '{\n  "a": [1, 2, 3],\n  "b": [],\n  "c": {}\n}\n');
});

test("one empty line between members stays, more become one", () => {
  assert.equal(formatted('{\n"a":1,\n\n\n\n"b":2\n\n}'), '{\n  "a": 1,\n\n  "b": 2\n}\n');
});

test("a text whose brackets do not fit has no layout", () => {
  for (const text of ["{", "[}", "}", '{"a": [1}', ""]) assert.equal(formatted(text), null);
});

test("only white space changes, and a text that was laid out stays as it is", () => {
  let seed = 7;
  const pick = (list) => list[(seed = (seed * 1103515245 + 12345) % 2147483648) % list.length];
  const gap = () => pick(["", " ", "\n", "\n\n", "  \n\t", " // c {\n", "/* [ */", "/*\n*/ ", "\n//x\n"]);
  const value = (depth) => {
    const kind = depth > 3 ? "s" : pick(["s", "n", "o", "l"]);
    if (kind === "s") return pick(['"a, {b}: [c]"', '"\\"//"', '""', '"é\\\\"']);
    if (kind === "n") return pick(["1", "-2.5e3", "true", "null"]);
    const items = Array.from({ length: pick([0, 1, 2, 3]) }, () =>
      kind === "o" ? `"k"${gap()}:${gap()}${value(depth + 1)}` : value(depth + 1));
    const inside = gap() + items.join(`${gap()},${gap()}`) + (items.length ? pick(["", ","]) : "") + gap();
    return kind === "o" ? `{${inside}}` : `[${inside}]`;
  };
  for (let turn = 0; turn < 2000; turn++) {
    const text = gap() + value(0) + gap();
    const once = formatted(text);
    assert.deepEqual(words(once), words(text), text);
    assert.equal(formatted(once), once, text);
  }
});
