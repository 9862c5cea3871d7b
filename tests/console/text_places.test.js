import assert from "node:assert/strict";
import { test } from "node:test";
import { lineOf, nodeAtLine, offsetOf, rangeOf } from "../../Middleware/api/console/static/workflows/text_places.js";

const problem = (more) => ({ line: 1, column: 1, end_line: 0, end_column: 0, pointer: "", node: null, level: "warning", message: "is wrong", ...more });

test("a column counts characters, an offset halves of UTF-16", () => {
  const text = 'a\n"😀b"\n';
  assert.equal(text.slice(offsetOf(text, 2, 3))[0], "b");
  assert.equal(offsetOf(text, 2, 99), 7);
  assert.equal(offsetOf(text, 9, 1), text.length);
});

test("a problem is underlined at its value, at one character where its end is not known", () => {
  assert.deepEqual(rangeOf('{"a": 12}', problem({ column: 7, end_line: 1, end_column: 9 })), { from: 6, to: 8 });
  assert.deepEqual(rangeOf("{}", problem({})), { from: 0, to: 1 });
  assert.deepEqual(rangeOf("{", problem({ column: 2 })), { from: 0, to: 1 });
  assert.deepEqual(rangeOf("", problem({})), { from: 0, to: 0 });
});

test("a problem's line names place, node and field", () => {
  const told = lineOf(problem({ line: 7, column: 47, node: 5, pointer: "/nodes/4/prompt" }), () => "Answer");
  assert.deepEqual(told, { at: "7:47", where: "node 5 Answer, prompt", message: "is wrong" });
  assert.equal(lineOf(problem({ node: 1, pointer: "/0/a~1b" }), () => undefined).where, "node 1, a/b");
  assert.equal(lineOf(problem({ pointer: "/nodes" }), () => undefined).where, "nodes");
});

test("a line lies in a node or between nodes", () => {
  const nodes = [{ n: 1, lines: [3, 5] }, { n: 2, lines: [7, 9] }];
  assert.deepEqual([2, 3, 5, 6, 9].map((line) => nodeAtLine(nodes, line)), [null, 1, 1, null, 2]);
});
