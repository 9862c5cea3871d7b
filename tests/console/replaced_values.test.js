// Values of a file that take the place of others: Use of a found server for the built-in model (workbench.md 6).
import assert from "node:assert/strict";
import test from "node:test";
import { withValues } from "../../Middleware/api/console/static/workflows/json_edit.js";

const TEXT = `{
  // the demo
  "endpoint": "http://127.0.0.1:11434", "more": [1,  2],
  "model": "demo" /* a model */
}
`;

test("only the values change", () => {
  const made = withValues(TEXT, { endpoint: "http://box:1", model: 'a "b"' });
  assert.equal(made, TEXT.replace("http://127.0.0.1:11434", "http://box:1").replace('"demo"', '"a \\"b\\""'));
});

test("a value that is no single word or text stays", () => {
  assert.equal(withValues('{"model": {"a": [1]}, "b": 2}', { model: "x", b: "y" }), '{"model": {"a": [1]}, "b": "y"}');
});

test("a key that is not there is put first", () => {
  assert.deepEqual(JSON.parse(withValues('{"a": 1}', { model: "x", endpoint: "y" })), { endpoint: "y", model: "x", a: 1 });
  assert.deepEqual(JSON.parse(withValues("{}", { model: "x" })), { model: "x" });
  assert.deepEqual(JSON.parse(withValues("{}", { model: "x", endpoint: "y" })), { endpoint: "y", model: "x" });
});

test("of a key that is there twice the last one counts", () => {
  assert.equal(withValues('{"a": 1, "a": 2}', { a: 3 }), '{"a": 1, "a": 3}');
});

test("a text that is no object stays", () => {
  assert.equal(withValues("[1]", { a: 1 }), "[1]");
});
