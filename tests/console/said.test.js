import assert from "node:assert/strict";
import { test } from "node:test";
import { NOTHING, outdatedIn, saidIn } from "../../Middleware/api/console/static/workflows/said.js";

test("an event says text, thought, finish or failure", () => {
  assert.equal(saidIn('{"choices":[{"delta":{"content":"Hi"}}]}').text, "Hi");
  assert.equal(saidIn('{"choices":[{"delta":{"reasoning_content":"hm"}}]}').thought, "hm");
  assert.equal(saidIn('{"choices":[{"delta":{},"finish_reason":"length"}]}').finish, "length");
  assert.equal(saidIn('{"error":{"message":"no backend"}}').error, "no backend");
  for (const data of ["[DONE]", "{half"]) assert.deepEqual(saidIn(data), NOTHING);
});

test("a run says which of its files it used in their last good version", () => {
  const run = { stood_out: [{ rule: "outdated", text: "Workflows/a/Main.json:3:11: ..." }, { rule: "warned", text: "w" }] };
  assert.deepEqual(outdatedIn(run), ["Workflows/a/Main.json:3:11: ..."]);
  assert.deepEqual(outdatedIn(null), []);
});
