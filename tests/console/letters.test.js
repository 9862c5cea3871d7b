import assert from "node:assert/strict";
import { test } from "node:test";
import { lettersToChange } from "../../Middleware/api/console/static/shared/letters.js";

test("letters that must be changed, added or taken away", () => {
  assert.equal(lettersToChange("abc", "abc"), 0);
  assert.equal(lettersToChange("standard", "standrad"), 2);
  assert.equal(lettersToChange("abc", "xyz"), 3);
  assert.equal(lettersToChange("a", "abcdef"), 5);
  assert.equal(lettersToChange("", "ab"), 2);
});
