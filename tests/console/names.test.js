import assert from "node:assert/strict";
import test from "node:test";
import { hueOf, lettersToChange } from "../../Middleware/api/console/static/shared/names.js";

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
