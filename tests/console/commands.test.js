import assert from "node:assert/strict";
import test from "node:test";
import { asCurl, firstRequest } from "../../Middleware/api/console/static/commands.js";

const ADDRESS = "http://10.0.0.7:8080/v1/chat/completions";

test("a request as curl, quoted for each shell (16.11)", () => {
  assert.equal(asCurl(ADDRESS, `{"a":"it's"}`, "sh"), `curl ${ADDRESS} -H 'Content-Type: application/json' -d '{"a":"it'\\''s"}'`);
  assert.equal(asCurl(ADDRESS, `{"a":"it's"}`, "powershell"), `curl.exe ${ADDRESS} -H 'Content-Type: application/json' -d '{"a":"it''s"}'`);
});

test("a body over 8 KB is named as a file", () => {
  assert.ok(asCurl(ADDRESS, "x".repeat(8193), "sh").endsWith(" -d @body.json"));
  assert.ok(asCurl(ADDRESS, "é".repeat(4097), "powershell").endsWith(" -d '@body.json'"));
});

test("the first request asks the first user's model", () => {
  assert.match(firstRequest("http://localhost:5000", "mira", "sh"), /^curl http:\/\/localhost:5000\/v1\/chat\/completions .*"model":"mira"/);
});
