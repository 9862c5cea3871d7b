import assert from "node:assert/strict";
import test from "node:test";
import { allCallsBars, barsOf, callBars, endOf, firstPart, rowsOf, spanWords, tickWords, ticks } from "../../Middleware/api/console/static/runs/fall_scale.js";

const node = (i, more = {}) => ({
  i, parent: null, depth: 0, label: "", workflow: "Workflows/mira/Reviewers.json", number: i + 1, of: 5, title: `N${i}`, type: "Standard", group: null,
  answers: false, after: false, state: "done", begun_s: i, ended_s: i + 1, endpoint: "Big", calls: [], waits: [], ...more,
});
const call = (more = {}) => ({ k: 0, kind: "model", endpoint: "Big", begun_s: 1, sent_s: 1, first_s: 1.5, ended_s: 3, error: null, ...more });
const shown = (rows) => rows.map((row) => (row.type === "line" ? "line" : `${row.type} ${row.node.i}${row.call ? `.${row.call.k}` : ""} ${row.depth}${row.grouped ? " together" : ""}`));

test("the axis has the smallest step that gives at most seven ticks (16.6)", () => {
  const at = (end) => ticks(0, end).at;
  assert.deepEqual(at(6.3), [0, 1, 2, 3, 4, 5, 6]);
  assert.deepEqual(at(0.31), [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]);
  assert.deepEqual(at(47), [0, 10, 20, 30, 40]);
  assert.deepEqual(at(1900), [0, 500, 1000, 1500]);
});

test("ticks carry the unit once; from a minute on each has its own", () => {
  assert.equal(tickWords(0, 0, 0.05), "0\u202fs");
  assert.equal(tickWords(0.1, 2, 0.05), "0.10");
  assert.equal(tickWords(500, 1, 500), "8\u202fmin 20\u202fs");
  assert.equal(tickWords(1.25, 0, 0.05), "1.25\u202fs");
});

test("a part of the axis has ticks at the same places", () => {
  assert.deepEqual(ticks(1.2, 2.1), { step: 0.2, at: [1.2, 1.4, 1.6, 1.8, 2] });
});

test("the column at the right leaves the unit to the axis", () => {
  assert.deepEqual([null, 0.004, 0.04, 1.56, 12.4, 200].map(spanWords), ["–", "<\u202f10\u202fms", "0.04", "1.6", "12", "3\u202fmin 20\u202fs"]);
});

test("nested nodes stand below theirs, groups are joined, several calls have rows, a line stands before what runs after", () => {
  const nodes = [node(0), node(1, { group: "critics" }), node(2, { group: "critics", calls: [call(), call({ k: 1 })] }), node(3), node(4, { parent: 1, depth: 1 }), node(5, { after: true }), node(6, { after: true })];
  assert.deepEqual(shown(rowsOf(nodes, new Set())), [
    "node 0 0", "node 1 0 together", "node 4 1 together", "node 2 0 together", "call 2.0 1 together", "call 2.1 1 together", "node 3 0", "line", "node 5 0", "node 6 0",
  ]);
});

test("a nested run of more than twelve rows is folded until somebody opens it", () => {
  const nodes = [node(0), ...Array.from({ length: 13 }, (_, i) => node(i + 1, { parent: 0, depth: 1 })), node(14)];
  assert.deepEqual(shown(rowsOf(nodes, new Set())), ["node 0 0", "fold 0 1", "node 14 0"]);
  assert.equal(rowsOf(nodes, new Set([0])).length, 16);
});

test("the time in which a backend loaded the model has a bar of its own", () => {
  const loading = call({ begun_s: 1, sent_s: 2, first_s: 12, ended_s: 14, load_s: 8 });
  const bars = [{ kind: "first", from: 1, to: 2 }, { kind: "load", from: 2, to: 10 }, { kind: "first", from: 10, to: 12 }, { kind: "say", from: 12, to: 14 }];
  assert.deepEqual(callBars(loading, 20), bars);
  assert.deepEqual(barsOf(node(1, { ended_s: 14, calls: [loading] }), { shape: [], first_s: null }, 20), bars);
  assert.deepEqual(barsOf(node(1, { ended_s: 14, answers: true, calls: [loading] }), { shape: [], first_s: 12 }, 20), bars);
  assert.deepEqual(callBars({ ...loading, load_s: 0.1 }, 20).map(({ kind }) => kind), ["first", "say"]);
  assert.deepEqual(callBars({ ...loading, load_s: 60 }, 20).map(({ kind, to }) => [kind, to]), [["first", 2], ["load", 12], ["say", 14]]);
});

test("bars of the answering node: until the first token, thinking, writing (16.3)", () => {
  const answers = node(3, { answers: true, begun_s: 3.3, ended_s: 6.3, calls: [call({ begun_s: 3.3, first_s: 3.8 })] });
  const run = { shape: [["queue", 0.2], ["other", 3.1], ["first", 0.5], ["think", 0.6], ["say", 1.9]], first_s: 4.4 };
  assert.deepEqual(barsOf(answers, run, 7.5), [{ kind: "first", from: 3.3, to: 3.8 }, { kind: "think", from: 3.8, to: 4.4 }, { kind: "say", from: 4.4, to: 6.3 }]);
  const silent = { shape: [["first", 1.1], ["say", 1.9]], first_s: 4.4 };
  assert.deepEqual(barsOf(answers, silent, 7.5), [{ kind: "first", from: 3.3, to: 4.4 }, { kind: "say", from: 4.4, to: 6.3 }]);
});

test("bars of other nodes: a model's in two parts, without a model grey, after the answer pale, unfinished ones until now", () => {
  const run = { shape: [], first_s: null };
  assert.deepEqual(barsOf(node(1, { calls: [call()], ended_s: 3 }), run, 9), [{ kind: "first", from: 1, to: 1.5 }, { kind: "say", from: 1.5, to: 3 }]);
  assert.deepEqual(barsOf(node(1), run, 9), [{ kind: "other", from: 1, to: 2 }]);
  assert.deepEqual(barsOf(node(1, { after: true, calls: [call()] }), run, 9), [{ kind: "after", from: 1, to: 2 }]);
  assert.deepEqual(barsOf(node(1, { ended_s: null, calls: [call({ first_s: null })] }), run, 9), [{ kind: "first", from: 1, to: 9 }]);
  assert.deepEqual(barsOf(node(1, { begun_s: null }), run, 9), []);
  assert.deepEqual(barsOf(node(1, { ended_s: 1 }), run, 9), [{ kind: "other", from: 1, to: 1 }]);
  assert.deepEqual(callBars(call({ kind: "http" }), 9), [{ kind: "other", from: 1, to: 3 }]);
  assert.deepEqual(callBars(call({ kind: "prefill" }), 9), [{ kind: "prefill", from: 1, to: 3 }]);
});

test("more than four calls of a node are one row until somebody opens it", () => {
  const calls = (count) => Array.from({ length: count }, (_, k) => call({ k, begun_s: k, ended_s: k + 1 }));
  assert.equal(rowsOf([node(0, { calls: calls(4) })], new Set()).length, 5);
  const many = node(0, { calls: calls(5) });
  assert.deepEqual(shown(rowsOf([many], new Set())), ["node 0 0", "calls 0 1"]);
  assert.deepEqual(rowsOf([many], new Set(["c0"])).map(({ type }) => type), ["node", "calls", ...Array(5).fill("call")]);
  assert.deepEqual(allCallsBars(many, 9), [{ kind: "first", from: 0, to: 5 }]);
  assert.deepEqual(allCallsBars({ ...many, after: true, calls: [call({ ended_s: null })] }, 9), [{ kind: "after", from: 1, to: 9 }]);
});

test("shown at first: the deepest node that failed, else the answer; what was asked while it waits (workbench.md 13)", () => {
  const nodes = [node(0, { state: "failed" }), node(1, { state: "failed", parent: 0, depth: 1 }), node(2)];
  assert.equal(firstPart({ state: "failed", nodes }), 1);
  assert.equal(firstPart({ state: "answering", nodes: [node(0, { answers: true })] }), "answer");
  assert.equal(firstPart({ state: "waiting", nodes: [] }), "request");
});

test("the axis holds what is read ahead behind the end of a run", () => {
  const nodes = [node(0, { calls: [call(), call({ k: 1, kind: "prefill", begun_s: 4, ended_s: 9 })] })];
  assert.equal(endOf({ took_s: 3, nodes }, 3), 9);
  assert.equal(endOf({ took_s: 3, nodes: [node(0)] }, 3), 3);
});

test("the time in which a call waits for its turn is a bar of its own, also while it waits", () => {
  const waits = [{ for: "a slot of Big", begun_s: 1, ended_s: 3 }];
  const asked = call({ begun_s: 3, sent_s: 3, first_s: 5, ended_s: 6 });
  const queue = { kind: "queue", from: 1, to: 3 };
  assert.deepEqual(barsOf(node(1, { ended_s: 6, waits, calls: [asked] }), { shape: [], first_s: null }, 9), [queue, { kind: "first", from: 3, to: 5 }, { kind: "say", from: 5, to: 6 }]);
  assert.deepEqual(barsOf(node(0, { ended_s: 6, waits, after: true, calls: [asked] }), { shape: [], first_s: null }, 9), [{ kind: "after", from: 0, to: 1 }, queue, { kind: "after", from: 3, to: 6 }]);
  assert.deepEqual(barsOf(node(1, { ended_s: null, waits: [{ ...waits[0], ended_s: null }] }), { shape: [], first_s: null }, 4), [{ ...queue, to: 4 }]);
});
