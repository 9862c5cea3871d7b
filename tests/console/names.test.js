import assert from "node:assert/strict";
import test from "node:test";
import { fitting, hueOf, lettersToChange } from "../../Middleware/api/console/static/shared/names.js";

test("a name has the same one of eight hues wherever it stands (workbench.md 12)", () => {
  const names = Array.from({ length: 400 }, (_, at) => `Endpoint-${at}`);
  const count = new Map();
  for (const name of names) count.set(hueOf(name), (count.get(hueOf(name)) ?? 0) + 1);
  assert.deepEqual([...count.keys()].sort(), [1, 2, 3, 4, 5, 6, 7, 8]);
  assert.ok([...count.values()].every((many) => many > 25));
  assert.equal(hueOf("Big"), hueOf("B" + "ig"));
});

test("letters that must be changed, added or taken away", () => {
  assert.equal(lettersToChange("abc", "abc"), 0);
  assert.equal(lettersToChange("standard", "standrad"), 2);
  assert.equal(lettersToChange("abc", "xyz"), 3);
  assert.equal(lettersToChange("a", "abcdef"), 5);
  assert.equal(lettersToChange("", "ab"), 2);
});

const FIELDS = [
  ["jinja2", "Texts are templates."],
  ["requestLimits", "How many at once."],
  ["maxResponseSizeInTokens", "How long the answer may get at most (length limit). Longer answers are cut off."],
  ["answerFirst", "The model answers before it thinks."],
  ["cap", "A limit."],
  ["maxCap", ""],
  ["b", "Has a cap."],
];
const fit = (wanted) => fitting(FIELDS, wanted, (one) => one).map(([name]) => name);

test("what fits is found word by word, without small words, by the beginnings of words", () => {
  for (const wanted of ["answer length", "limit the length of an answer", "how long the answer may get", "longest answers", "lengths limits"])
    assert.deepEqual(fit(wanted), ["maxResponseSizeInTokens"], wanted);
  assert.deepEqual(fit("size response"), ["maxResponseSizeInTokens"]);
  assert.deepEqual(fit("Max response size"), ["maxResponseSizeInTokens"]);
});

test("names come before descriptions, and a name that is it before one that holds it", () => {
  assert.deepEqual(fit("cap"), ["cap", "maxCap", "b"]);
  assert.deepEqual(fit("limits"), ["requestLimits", "maxResponseSizeInTokens", "cap"]);
  assert.deepEqual(fit("requestLimist"), ["requestLimits"]);
});

test("where nothing has all words, those with the most of them are found; nothing where most are missing", () => {
  assert.deepEqual(fit("zzz answer length"), ["maxResponseSizeInTokens"]);
  assert.deepEqual(fit("zzz yyy length"), []);
  assert.deepEqual(fit("zzz"), []);
  assert.deepEqual(fit(" ? "), []);
});

test("small words are looked for where nothing else is", () => assert.deepEqual(fit("how many"), ["requestLimits"]));
