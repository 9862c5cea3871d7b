// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { callIn, editsOf, textOfMessage, withText } from "../../Middleware/api/console/static/again/calls.js";

const BODY = JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }], stream: true, temperature: 0.7 });
const call = () => /** @type {NonNullable<ReturnType<typeof callIn>>} */ (callIn(BODY));

test("messages, samplers, and a system text that stands beside them", () => {
  assert.deepEqual(call(), { messages: [{ role: "user", content: "Hi" }], prompt: "", samplers: [["temperature", "0.7"]] });
  const claude = callIn(JSON.stringify({ system: "Be kind.", messages: [] }));
  assert.deepEqual(claude?.messages, [{ role: "system", content: "Be kind." }]);
  assert.deepEqual(callIn(JSON.stringify({ messages: [], options: { top_k: 5 } }))?.samplers, [["top_k", "5"]]);
});

test("a flat prompt; what is no call", () => {
  assert.equal(callIn('{"prompt":"x"}')?.messages, null);
  assert.deepEqual([callIn("{"), callIn("[]"), callIn('{"input":["x"]}')], [null, null, null]);
});

test("what was not edited is not said", () => assert.deepEqual(editsOf(call(), call()), {}));

test("edits of messages and samplers", () => {
  const now = { ...call(), messages: [withText({ role: "user", content: "Hi" }, "Ho")] };
  assert.deepEqual(editsOf(call(), now), { messages: [{ role: "user", content: "Ho" }] });
  const warm = { ...call(), samplers: /** @type {[string, string][]} */ ([["temperature", "1"]]) };
  assert.deepEqual(editsOf(call(), warm), { sampler: { temperature: 1 } });
  const none = { ...call(), samplers: /** @type {[string, string][]} */ ([["temperature", " "]]) };
  assert.deepEqual(editsOf(call(), none), { sampler: { temperature: null } });
});

test("pictures of a message stay", () => {
  const image = { type: "image_url", image_url: { url: "data:x" } };
  const message = { role: "user", content: [{ type: "text", text: "Look" }, image] };
  assert.equal(textOfMessage(message), "Look");
  assert.deepEqual(withText(message, "See").content, [{ type: "text", text: "See" }, image]);
});
