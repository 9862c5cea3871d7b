import assert from "node:assert/strict";
import test from "node:test";
import { boxLeft, sentIn } from "../../Middleware/api/console/static/runs/sent_parts.js";

const sent = (body) => sentIn(JSON.stringify(body));
const PIXEL = "iVBORw0KGgo=";

test("a chat body is messages, tools and samplers", () => {
  const { messages, tools, samplers, prompt } = sent({
    model: "m", temperature: 0.7, stop: ["\nUser:"], tools: [{ type: "function", function: { name: "look" } }],
    messages: [{ role: "system", content: "be kind" }, { role: "assistant", content: null, tool_calls: [{ id: "1" }] }],
  });
  assert.deepEqual(messages.map(({ role, text }) => [role, text]), [["system", "be kind"], ["assistant", ""]]);
  assert.match(messages[1].calls, /"id": "1"/);
  assert.deepEqual([tools, prompt], [["look"], null]);
  assert.deepEqual(samplers, [["model", "m"], ["temperature", "0.7"], ["stop", '["\\nUser:"]']]);
});

test("pictures of three formats: a small one that came along is shown, one by address never", () => {
  const { messages } = sent({ messages: [
    { role: "user", content: [{ type: "text", text: "see" }, { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } }, { type: "image_url", image_url: { url: "//host/a.png" } }] },
    { role: "user", content: [{ type: "image", source: { type: "base64", media_type: "image/jpeg", data: "/9j/" } }] },
    { role: "user", content: "see", images: [PIXEL, "/9j/4AAQ"] },
  ] });
  assert.deepEqual(messages[0].pictures, [{ type: "image/png", bytes: 9, src: `data:image/png;base64,${PIXEL}` }, { type: "picture by address", bytes: null, src: null }]);
  assert.equal(messages[0].text, "see");
  assert.equal(messages[1].pictures[0].src, "data:image/jpeg;base64,/9j/");
  assert.deepEqual(messages[2].pictures.map(({ type }) => type), ["image/png", "image/jpeg"]);
});

test("a large picture, and one that may hold scripts, is told of by type and size alone", () => {
  const large = sent({ messages: [{ role: "user", images: [PIXEL.repeat(20_000)] }] }).messages[0].pictures[0];
  assert.deepEqual([large.type, large.src], ["image/png", null]);
  const drawn = sent({ messages: [{ role: "user", content: [{ image_url: { url: "data:image/svg+xml;base64,AAAA" } }] }] }).messages[0].pictures[0];
  assert.deepEqual([drawn.type, drawn.src], ["image/svg+xml", null]);
});

test("a system text beside the messages comes first; a flat prompt stays a text; anything else is no such body", () => {
  assert.deepEqual(sent({ system: [{ type: "text", text: "be kind" }], messages: [] }).messages[0].text, "be kind");
  assert.equal(sent({ prompt: "User: hi\nAssistant:" }).prompt, "User: hi\nAssistant:");
  for (const text of ["[]", "null", "1", "{}", "{", '{"input": ["a"]}']) assert.equal(sentIn(text), null);
});

test("the box in which a prompt leaves the one before", () => {
  const chat = sent({ system: "be kind", messages: [{ role: "user", content: "a" }, { role: "user", content: "b" }] });
  assert.deepEqual([0, 1, 3, 4].map((message) => boxLeft(chat, { message })), ["tools", 0, 2, null]);
  assert.deepEqual([null, undefined].map((none) => boxLeft(chat, none)), [null, null]);
  const flat = sent({ system: "be kind", prompt: "a" });
  assert.deepEqual([1, 2].map((message) => boxLeft(flat, { message })), [0, "prompt"]);
  assert.equal(boxLeft(sent({ prompt: "a" }), { message: 1 }), "prompt");
});
