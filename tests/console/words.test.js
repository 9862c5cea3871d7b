import assert from "node:assert/strict";
import test from "node:test";
import { clock, costWords, loadedWords, money, number, seconds, size, unbroken } from "../../Middleware/api/console/static/shared/words.js";

const plain = (text) => text.replaceAll("\u202f", " ");

test("durations have one form each (13.3)", () => {
  const said = [0.004, 0.04, 0.8, 9.94, 9.96, 12.3, 59.4, 59.6, 200, 180, 3700].map((value) => plain(seconds(value)));
  assert.deepEqual(said, ["< 10 ms", "0.04 s", "0.8 s", "9.9 s", "10 s", "12 s", "59 s", "1 min", "3 min 20 s", "3 min", "1 h 1 min"]);
  assert.equal(seconds(null), "–");
});

test("numbers from 1,000 have thin spaces; a share of one keeps a digit", () => {
  assert.deepEqual([0, 0.4, 9.3, 999, 1204, 1234567, -4127].map(number), ["0", "0.4", "9", "999", "1\u202f204", "1\u202f234\u202f567", "-4\u202f127"]);
});

test("money has two decimals, and small sums two digits that say something", () => {
  assert.deepEqual([0, 2.5, 0.1, 0.0123, 0.000003, 1234.567].map(money), ["0.00", "2.50", "0.10", "0.012", "0.000003", "1234.57"]);
});

test("a cost names its currencies, which are never added", () => {
  assert.equal(plain(costWords({ amounts: { USD: 0.25 }, about: false })), "0.25 USD");
  assert.equal(plain(costWords({ amounts: { EUR: 0.5, USD: 0.0123 }, about: true })), "about 0.50 EUR and 0.012 USD");
});

test("a server says what it has loaded", () => {
  assert.equal(loadedWords({ url: "", server: "Ollama", models: ["a:1b", "b:2b"], slots: null }), "Ollama: a:1b, b:2b");
  assert.equal(loadedWords({ url: "", server: "llama.cpp", models: [], slots: { busy: 1, total: 2 } }), "llama.cpp: no model, 1 of 2 slots busy");
});

test("sizes count in thousands", () => {
  assert.deepEqual([900, 1204, 1_204_311, 16_777_216, 999_999].map((bytes) => plain(size(bytes))), ["900 B", "1.2 KB", "1.2 MB", "17 MB", "1.0 MB"]);
});

test("a time of another day has its date", () => {
  const noon = new Date(2026, 10, 28, 12, 4, 31).getTime() / 1000;
  assert.equal(clock(noon, noon + 60), "12:04:31");
  assert.equal(clock(noon, noon + 86400), "28 Nov 12:04:31");
});

test("no line ends between a number and its unit", () => {
  assert.equal(unbroken("Draft 1.6 s, then 3 min 20 s."), "Draft 1.6\u00a0s, then 3\u00a0min 20\u00a0s.");
  assert.equal(unbroken("node 4 stays, 2 sons"), "node 4 stays, 2 sons");
});
