import assert from "node:assert/strict";
import { test } from "node:test";
import { conversationIn, messagesIn, nextRole } from "../../Middleware/api/console/static/runs/spoken.js";

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

test("a conversation for --messages keeps what a list holds, and is made of texts where there is none", () => {
  const picture = { role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] };
  assert.deepEqual(conversationIn(JSON.stringify({ messages: [picture] })), [picture]);
  const [asked, said] = [{ role: "user", content: "b" }, { role: "system", content: "a" }];
  assert.deepEqual(conversationIn(JSON.stringify({ system: "a", messages: [asked] })), [said, asked]);
  assert.deepEqual(conversationIn(JSON.stringify({ input: "b" })), [asked]);
  assert.deepEqual(conversationIn("{"), []);
});
