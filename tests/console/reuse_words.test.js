import assert from "node:assert/strict";
import test from "node:test";
import { leftWords, readingWords, reuseWords } from "../../Middleware/api/console/static/runs/sent_parts.js";

const plain = (text) => text.replaceAll("\u202f", ",");
const PROMPT = { tokens: 12400, about: false, held: 11800, held_about: false, compared: true, leaves: { message: 1, character: 256, where: "in the system prompt" } };

test("the backend's numbers stand as they are, estimates have their word", () => {
  const words = [{}, { held_about: true }, { about: true, held_about: true }, { held: null }, { about: true, held: null }, { held: 12400 }].map((more) => plain(reuseWords({ ...PROMPT, ...more })));
  assert.deepEqual(words, [
    "12,400 tokens: 11,800 held, 600 new",
    "12,400 tokens: about 11,800 held, 600 new",
    "about 12,400 tokens: 11,800 held, 600 new",
    "12,400 tokens",
    "about 12,400 tokens",
    "12,400 tokens: 12,400 held, 0 new",
  ]);
});

test("how long the backend read it, where it says so", () => {
  assert.deepEqual([1.23, null].map(readingWords), ["Read in 1.2\u202fs.", ""]);
});

test("where it left the one before", () => {
  assert.equal(leftWords(PROMPT), "It leaves the one before in the system prompt.");
  assert.equal(leftWords(PROMPT, "{time}"), "It leaves the one before in the system prompt, at {time}.");
  assert.equal(leftWords({ ...PROMPT, leaves: null }), "The one before began in the same way.");
  assert.equal(leftWords({ ...PROMPT, compared: false, leaves: null }), "This is the first prompt that this server was sent.");
});
