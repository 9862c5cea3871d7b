import assert from "node:assert/strict";
import { test } from "node:test";
import { checker } from "../../Middleware/api/console/static/workflows/checker.js";

/** A checker with a clock of ours and answers that come when we say so. */
function trial(context) {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const asked = [];
  const told = [];
  const check = checker((text) => new Promise((resolve, reject) => asked.push({ text, resolve, reject })), (answer, error, text) => told.push([answer, error?.message ?? null, text]));
  const settle = async () => {
    for (let turn = 0; turn < 5; turn++) await Promise.resolve();
  };
  const later = async (ms) => {
    context.mock.timers.tick(ms);
    await settle();
  };
  return { check, asked, told, later, settle };
}

test("a text is checked 300 ms after the last key", async (context) => {
  const { check, asked, later } = trial(context);
  check.typed("a");
  await later(200);
  check.typed("ab");
  await later(299);
  assert.equal(asked.length, 0);
  await later(1);
  assert.deepEqual(asked.map(({ text }) => text), ["ab"]);
});

test("one at a time, and only the answer for the newest text is told", async (context) => {
  const { check, asked, told, later, settle } = trial(context);
  for (const text of ["a", "ab", "abc"]) {
    check.typed(text);
    await later(300);
  }
  assert.deepEqual(asked.map(({ text }) => text), ["a"]);
  asked[0].resolve("old");
  await settle();
  assert.deepEqual(told, []);
  assert.deepEqual(asked.map(({ text }) => text), ["a", "abc"]);
  asked[1].resolve("new");
  await settle();
  assert.deepEqual(told, [["new", null, "abc"]]);
});

test("an answer that comes while one types on is not told", async (context) => {
  const { check, asked, told, later, settle } = trial(context);
  check.typed("a");
  await later(300);
  check.typed("ab");
  asked[0].resolve("old");
  await settle();
  assert.deepEqual(told, []);
});

test("a failure is told, and the next text is asked for all the same", async (context) => {
  const { check, asked, told, later, settle } = trial(context);
  check.typed("a");
  await later(300);
  asked[0].reject(new Error("no answer"));
  await settle();
  assert.deepEqual(told, [[null, "no answer", "a"]]);
  check.typed("b");
  await later(300);
  assert.equal(asked.length, 2);
});

test("nothing is told once it has ended", async (context) => {
  const { check, asked, told, later, settle } = trial(context);
  check.typed("a");
  await later(300);
  check.stop();
  asked[0].resolve("late");
  await settle();
  assert.deepEqual(told, []);
});
