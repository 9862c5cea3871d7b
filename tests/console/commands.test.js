import assert from "node:assert/strict";
import test from "node:test";
import { firstRequest, isLong, quoted } from "../../Middleware/api/console/static/runs/commands.js";

const ADDRESS = "http://10.0.0.7:8080/v1/chat/completions";

test("texts are quoted for each shell (16.11)", () => {
  assert.equal(quoted("it's", "sh"), "'it'\\''s'");
  assert.equal(quoted("it's", "powershell"), "'it''s'");
});

test("a body over 8 KB is named as a file", () => {
  assert.ok(!isLong("x".repeat(8192)));
  assert.ok(isLong("x".repeat(8193)));
  assert.ok(isLong("é".repeat(4097)));
});

test("the first request asks the first user's model", () => {
  const body = '{"model":"mira","messages":[{"role":"user","content":"Hello"}]}';
  assert.equal(firstRequest(ADDRESS, "mira", "sh"), `curl ${ADDRESS} -H 'Content-Type: application/json' -d '${body}'`);
  assert.equal(firstRequest(`${ADDRESS}?a&b`, "mira", "powershell"), `curl.exe '${ADDRESS}?a&b' -H 'Content-Type: application/json' -d '${body}'`);
});
