// What the Overview makes of the history.
import assert from "node:assert/strict";
import test from "node:test";

import { groupRow, plotsOf, slotRows, slotWords } from "../../Middleware/api/console/static/overview/numbers.js";

const plain = (text) => text.replaceAll("\u202f", " ");
const noon = new Date(2026, 10, 27, 18, 0, 0).getTime() / 1000;
const made = (given) => ({
  span: "hours", starts: [noon, noon + 3600, noon + 7200], end: noon + 9000, groups: [], lost: 0, costs: { USD: [0, 0.0123, 0] },
  series: { requests: [3, 40, 0], failed: [0, 2, 0], cancelled: [0, 1, 0], tokens: [90, 1200, 0], first_p50: [0.8, 12.3, null], first_p95: [1.1, 31, null] }, ...given,
});

test("a slot is called by its weekday and hour, or by its date", () => {
  assert.equal(slotWords(noon, "hours"), "Fri 18:00");
  assert.equal(slotWords(noon, "weeks"), "27 Nov");
});

test("a plot for requests, tokens, first token, and each currency", () => {
  const plots = plotsOf(made({ costs: { EUR: [1, 0, 0], USD: [0, 2, 0] } }));
  assert.deepEqual(plots.map(({ title }) => title), ["Requests", "Tokens", "First token", "Cost in EUR", "Cost in USD"]);
  assert.deepEqual(plots[0].crosses, [null, 0, null]);
  assert.equal(plots[0].said, "Requests: 43, 2 failed");
  assert.equal(plain(plots[2].said), "First token: median at most 12 s");
  assert.equal(plots[4].said, "Cost: 2.00 USD");
});

test("without a request nothing is known of the first token", () => {
  const nothing = [null, null, null];
  assert.equal(plotsOf(made({ series: { ...made({}).series, first_p50: nothing, first_p95: nothing } }))[2].said, "First token: median at most unknown");
});

test("the table holds the slots in which something happened, newest first", () => {
  const rows = slotRows(made({}));
  assert.deepEqual(rows.map(({ from }) => from), ["Fri 19:00", "Fri 18:00"]);
  assert.deepEqual([plain(rows[0].tokens), plain(rows[0]["first token"]), rows[0].USD], ["1 200", "12 s", "0.012"]);
});

test("a group says what is known of it", () => {
  const group = { name: "mira", requests: 412, failed: 3, cancelled: 1, prompt_tokens: 12400, completion_tokens: 20, held: null, first_s: 1.25, took_s: 6, cost: null };
  const row = groupRow(group);
  assert.deepEqual([row.requests, plain(row["tokens in"]), row.held, plain(row["first token"]), row.cost], ["412", "12 400", "–", "1.3 s", ""]);
  assert.equal(plain(groupRow({ ...group, cost: { amounts: { USD: 0.5 }, about: true } }).cost), "about 0.50 USD");
});
