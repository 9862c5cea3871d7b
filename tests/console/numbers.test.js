// What the Overview makes of the numbers of the last hour.
import assert from "node:assert/strict";
import test from "node:test";

import { hourPlots, rows, sinceFirst, totals, usualFirst, xs } from "../../Middleware/api/console/static/overview/numbers.js";

const NAMES = ["requests", "failed", "cancelled", "tokens", "tokens_after", "first_p50", "first_p95", "running", "waiting", "memory_mb"];
/** An hour of four slots in which nothing happened, but for what is given. */
const hour = (given) => ({ step_s: 10, end: 1_760_000_040, series: { ...Object.fromEntries(NAMES.map((name) => [name, [0, 0, 0, 0]])), first_p50: [null, null, null, null], first_p95: [null, null, null, null], memory_mb: [null, null, null, null], ...given } });

test("each slot begins ten seconds after the one before, and the last ends with the hour", () => {
  assert.deepEqual(xs(hour({})), [1_760_000_000, 1_760_000_010, 1_760_000_020, 1_760_000_030]);
});

test("four numbers of the hour", () => {
  const made = totals(hour({ requests: [3, 0, 0, 1], failed: [0, 0, 0, 1], tokens: [1200, 0, 0, 34], first_p50: [0.9, null, null, 2] }));
  assert.deepEqual(made.map(([, value]) => value.replace(/\u202f/g, " ")), ["4", "1", "1 234", "0.9 s"]);
  assert.equal(totals(hour({}))[3][1], "–");
});

test("requests that run or wait are among the requests, and named", () => {
  const made = totals(hour({ requests: [3, 0, 0, 4], running: [0, 1, 1, 3], waiting: [0, 9, 0, 2] }));
  assert.deepEqual(made[0], ["requests, 5 not ended yet", "7"]);
});

test("tokens that came after the answer stand apart", () => {
  const made = totals(hour({ tokens: [20, 0, 0, 50], tokens_after: [0, 0, 0, 50] }));
  assert.deepEqual(made[2], ["tokens out, 50 after the answer", "70"]);
});

test("the usual first token counts each slot as often as it had requests", () => {
  assert.equal(usualFirst(hour({ requests: [1, 9, 1, 0], first_p50: [5, 1, 7, null] })), 1);
  assert.equal(usualFirst(hour({})), null);
});

test("a plot begins at the first data", () => {
  const made = sinceFirst({ ...hour({ requests: [null, null, 0, 3] }), end: 40 });
  assert.deepEqual(made.series.requests, [0, 3]);
  assert.deepEqual(xs(made), [20, 30]);
  const whole = hour({ requests: [1, null, 0, 3] });
  assert.equal(sinceFirst(whole), whole);
  const none = hour({ requests: [null, null, null, null] });
  assert.equal(sinceFirst(none), none);
});

test("tokens a second are those of a slot by its length", () => {
  const plots = hourPlots(hour({ tokens: [50, null, 0, 0] }));
  const plot = plots.find((one) => one.title === "Tokens a second");
  assert.deepEqual(plot.curves[0].values, [5, null, 0, 0]);
  assert.equal(plots.length, 6);
});

test("the table holds the slots in which something happened, newest first", () => {
  const made = rows(hour({ requests: [1, 0, 0, 2], first_p50: [0.5, null, null, null], memory_mb: [80, 81, 82, 83] }));
  assert.deepEqual(made.map((row) => row.requests), [2, 1]);
  assert.deepEqual(made.map((row) => row["memory MB"]), [83, 80]);
  assert.equal(made[0]["first token"], null);
});
