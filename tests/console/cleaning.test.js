import assert from "node:assert/strict";
import test from "node:test";
import { changes, piecesOf } from "../../Middleware/api/console/static/runs/cleaning.js";
import { diffWordsWithSpace } from "../../Middleware/api/console/static/vendor/diff.js";

const RAW = "<think>hm, let me see</think>\n\nAssistant: Hello there\n\n";
const STEPS = [
  { rule: "thinking_names", text: "\n\nAssistant: Hello there\n\n" },
  { rule: "leading_space", text: "Assistant: Hello there\n\n" },
  { rule: "endpoint_prefixes", text: "Hello there\n\n" },
  { rule: "trim_ends", text: "Hello there" },
];
const said = (pieces) => pieces.map(({ text, kind, rule }) => [kind, text, rule]);

test("each piece that was taken away names the rule that took it (16.4)", () => {
  assert.deepEqual(said(piecesOf(RAW, STEPS, diffWordsWithSpace)), [
    ["gone", "<think>hm, let me see</think>", "thinking_names"],
    ["gone", "\n\n", "leading_space"],
    ["gone", "Assistant: ", "endpoint_prefixes"],
    ["kept", "Hello there", ""],
    ["gone", "\n\n", "trim_ends"],
  ]);
});

test("what a rule added is marked; what a later rule takes of it is simply gone", () => {
  const steps = [{ rule: "speaker", text: "Mira: Hello there" }, { rule: "prefixes", text: "Hello there" }];
  assert.deepEqual(said(piecesOf("Hello there", [steps[0]], diffWordsWithSpace)), [["added", "Mira: ", "speaker"], ["kept", "Hello there", ""]]);
  assert.deepEqual(said(piecesOf("Hello there", steps, diffWordsWithSpace)), [["kept", "Hello there", ""]]);
});

test("kept and gone pieces are the raw text, kept and added ones the cleaned, whatever the steps", () => {
  const words = ["a", " ", "\n", "b c", "<x>", "é"];
  let seed = 7;
  const next = (most) => (seed = (seed * 1103515245 + 12345) % 2147483648) % most;
  const text = () => Array.from({ length: next(12) }, () => words[next(words.length)]).join("");
  for (let round = 0; round < 500; round++) {
    const [raw, steps] = [text(), Array.from({ length: next(4) }, (_, i) => ({ rule: `r${i}`, text: text() }))];
    const pieces = piecesOf(raw, steps, diffWordsWithSpace);
    const joined = (kinds) => pieces.filter(({ kind }) => kinds.includes(kind)).map((piece) => piece.text).join("");
    assert.equal(joined(["kept", "gone"]), raw);
    assert.equal(joined(["kept", "added"]), steps.at(-1)?.text ?? raw);
  }
});

test("a comparison that takes too long shows all as removed and added", () => {
  assert.deepEqual(changes("x1 y", "x2 y", () => undefined), [{ value: "x" }, { value: "1", removed: true }, { value: "2", added: true }, { value: " y" }]);
});
