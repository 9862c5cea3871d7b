// What memory nodes gave is found in what was sent (workbench.md 14).
import assert from "node:assert/strict";
import test from "node:test";
import { piecesOf } from "../../Middleware/api/console/static/runs/sent_parts.js";

const words = (count, seed = 0) => Array.from({ length: count }, (_, at) => `w${seed + at}`).join(" ");
const given = (text, whose = "Recall") => ({ whose, text });

test("an output that stands whole in a text is a piece of its own", () => {
  const memory = "Ada keeps her brother's knife, as she promised.";
  assert.deepEqual(piecesOf(`Before. ${memory} After.`, [given(` ${memory}\n`)]), [
    { text: "Before. ", whose: "" },
    { text: memory, whose: "Recall" },
    { text: " After.", whose: "" },
  ]);
});

test("a short output says nothing", () => {
  assert.deepEqual(piecesOf("yes and yes", [given("yes")]), [{ text: "yes and yes", whose: "" }]);
  assert.deepEqual(piecesOf("", [given("x".repeat(50))]), [{ text: "", whose: "" }]);
});

test("of an output that was changed, stretches of 200 characters or more are told", () => {
  const memory = words(400);
  for (const [from, length, is] of [[37, 200, true], [1000, 450, true], [0, 200, true], [501, 198, false]]) {
    const part = memory.slice(from, from + length);
    const pieces = piecesOf(`<<${part}>>`, [given(memory)]);
    assert.equal(pieces.some(({ whose }) => whose === "Recall"), is, `${from} ${length}`);
    assert.equal(pieces.map(({ text }) => text).join(""), `<<${part}>>`);
    if (is) assert.equal(pieces.find(({ whose }) => whose)?.text, part);
  }
});

test("the first place counts, and pieces never overlap", () => {
  const memory = words(60);
  const pieces = piecesOf(`${memory} ${memory}`, [given(memory, "A"), given(memory, "B")]);
  assert.deepEqual(pieces.map(({ whose }) => whose), ["A", ""]);
});
