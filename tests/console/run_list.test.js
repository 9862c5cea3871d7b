import assert from "node:assert/strict";
import test from "node:test";
import { firstShown, fits, grown, held, markOf, ordered, otherWorkflow, scaleOf, timesSaid, withNames, wasRouted } from "../../Middleware/api/console/static/runs/run_list.js";

const run = (id, at, state = "done", took = 1) => ({ id, at, state, user: "mira", workflow: "Router > Code", shape: [["first", took]], took_s: took });
const ids = (runs) => runs.map(({ id }) => id);

test("those that wait or run stand on top in order of arrival, the others newest first (8.1)", () => {
  const runs = [run("old", 1), run("new", 4), run("second", 3, "waiting"), run("first", 2, "answering"), run("third", 5, "finishing")];
  assert.deepEqual(ids(ordered(runs)), ["first", "second", "third", "new", "old"]);
});

test("filters are joined with and; states may be several; a workflow is one of those on the way", () => {
  assert.ok(fits(run("a", 1), { user: "mira", state: "failed,done", workflow: "Code" }));
  assert.ok(!fits(run("a", 1), { user: "jo" }));
  assert.ok(!fits(run("a", 1), { state: "failed" }));
  assert.ok(!fits(run("a", 1), { workflow: "Cod" }));
});

test("the 90th percentile fills the width: one long run does not make the others dots", () => {
  const many = [...Array.from({ length: 9 }, (_, i) => run(`${i}`, 1, "done", 1 + i)), run("long", 1, "done", 900)];
  assert.equal(scaleOf(many), 9);
  assert.equal(scaleOf([run("a", 1, "done", 3)]), 3);
  assert.equal(scaleOf([]), 0);
});

test("a run that was done with trouble has a mark of its own; slowness, failures and what goes on keep theirs", () => {
  assert.equal(markOf({ state: "done", level: "trouble" }), "trouble");
  assert.equal(markOf({ state: "done", level: null }), "done");
  assert.equal(markOf({ state: "failed", level: "bad" }), "failed");
  assert.equal(markOf({ state: "answering", level: "trouble" }), "answering");
});

test("odd runs are those that failed or had trouble; a name is the one that was asked", () => {
  const odd = { ...run("a", 1), level: "trouble", name: "mira:cut" };
  assert.ok(fits(odd, { state: "odd" }) && fits({ ...odd, state: "failed", level: "bad" }, { state: "odd" }));
  assert.ok(!fits({ ...odd, level: null }, { state: "odd" }) && !fits({ ...odd, state: "refused", level: "bad" }, { state: "odd" }));
  assert.ok(fits({ ...odd, kept: true }, { state: "failed,kept" }) && !fits({ ...odd, kept: false }, { state: "kept" }));
  assert.ok(fits(odd, { name: "mira:cut" }) && !fits(odd, { name: "mira" }));
});

test("the workflow is told where the name does not say it", () => {
  assert.equal(otherWorkflow({ name: "mira:cut", workflow: "cut" }), "");
  assert.equal(otherWorkflow({ name: "claude-x -> mira:cut", workflow: "cut" }), "");
  assert.equal(otherWorkflow({ name: "rex", workflow: "PickRoute > Code" }), "PickRoute > Code");
  assert.equal(otherWorkflow({ name: null, workflow: null }), "");
});

test("the newest run that does not wait is shown where none was chosen", () => {
  assert.equal(firstShown([run("w", 9, "waiting"), run("a", 5, "answering"), run("new", 7), run("old", 1)])?.id, "new");
  assert.equal(firstShown([run("w", 9, "waiting")]), null);
});

test("the last part of a run that goes on has grown since it was told of; that of an ended one has not", () => {
  const going = { ...run("a", 1, "answering"), shape: [["first", 1], ["say", 2]], took_s: 3, heard: 1000 };
  assert.deepEqual(grown(going, 1500).shape, [["first", 1], ["say", 2.5]]);
  assert.equal(grown(going, 1500).took_s, 3.5);
  assert.equal(grown({ ...going, state: "done" }, 1500).took_s, 3);
});

test("a list that holds still keeps its rows in place, counts the new ones and takes older ones at its end", () => {
  const wanted = [run("new", 9), run("b", 5, "failed"), run("a", 4), run("older", 1)];
  const { rows, fresh } = held(wanted, ["a", "b", "gone"]);
  assert.deepEqual(ids(rows), ["a", "b", "older"]);
  assert.equal(fresh, 1);
});

test("names stand out in a sentence, longest first, not inside of words", () => {
  assert.deepEqual(withNames("Draft 2 before Draftsman: (Draft)", ["Draft", "Draft 2", "x"]), ["", "Draft 2", " before Draftsman: (", "Draft", ")"]);
  assert.deepEqual(withNames("a (b) c", ["(b)"]), ["a ", "(b)", " c"]);
});

test("a run was routed when its outermost nodes stand in more than one file", () => {
  const node = (workflow, parent = null) => ({ workflow, parent });
  assert.equal(wasRouted({ nodes: [node("Pick.json"), node("Code.json")] }), true);
  assert.equal(wasRouted({ nodes: [node("Outer.json"), node("Inner.json", 0), node("Outer.json")] }), false);
});

test("the same line more than once is one line with its number (workbench.md 13)", () => {
  const line = (text, rule = "warned") => ({ rule, text });
  assert.deepEqual(timesSaid([line("a"), line("b"), line("a"), line("a", "cut")]).map(({ text, rule, times }) => [text, rule, times]), [["a", "warned", 2], ["b", "warned", 1], ["a", "cut", 1]]);
});
