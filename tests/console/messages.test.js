import assert from "node:assert/strict";
import { test } from "node:test";
import { messagesIn, nextRole } from "../../Middleware/api/console/static/spoken.js";

test("messages of a request come out of each protocol's body", () => {
  assert.deepEqual(messagesIn('{"messages":[{"role":"user","content":"Hi"},{"role":"tool","content":"x"}]}'), [{ role: "user", content: "Hi" }]);
  assert.deepEqual(messagesIn('{"system":"Be brief.","messages":[{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"image"}]}]}'),
    [{ role: "system", content: "Be brief." }, { role: "user", content: "Hi" }]);
  assert.deepEqual(messagesIn('{"prompt":"Hi"}'), [{ role: "user", content: "Hi" }]);
  assert.deepEqual(messagesIn('{"input":"Hi"}'), [{ role: "user", content: "Hi" }]);
});

test("what holds none gives none", () => {
  for (const body of ["", "[]", "{}", "null", '{"messages":[null, 1]}']) assert.deepEqual(messagesIn(body), []);
});

test("after the user speaks the assistant", () => {
  assert.equal(nextRole([{ role: "user", content: "" }]), "assistant");
  assert.equal(nextRole([]), "user");
});
