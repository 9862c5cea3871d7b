import assert from "node:assert/strict";
import { test } from "node:test";
import { eventReader, saidIn } from "../../Middleware/api/console/static/sse.js";

test("events are the same however the stream is cut", () => {
  const stream = 'data: {"a": 1}\n\n: quiet\n\ndata: two\r\n\r\nevent: x\ndata:three\n\n';
  for (let size = 1; size <= stream.length; size++) {
    const read = eventReader();
    const found = [];
    for (let at = 0; at < stream.length; at += size) found.push(...read(stream.slice(at, at + size)));
    assert.deepEqual(found, ['{"a": 1}', "two", "three"]);
  }
});

test("an event says text, thought, finish or failure", () => {
  assert.equal(saidIn('{"choices":[{"delta":{"content":"Hi"}}]}').text, "Hi");
  assert.equal(saidIn('{"choices":[{"delta":{"reasoning_content":"hm"}}]}').thought, "hm");
  assert.equal(saidIn('{"choices":[{"delta":{},"finish_reason":"length"}]}').finish, "length");
  assert.equal(saidIn('{"error":{"message":"no backend"}}').error, "no backend");
  assert.equal(saidIn("[DONE]").end, true);
  assert.equal(saidIn("{half").text, "");
});
