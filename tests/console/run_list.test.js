import assert from "node:assert/strict";
import test from "node:test";
import { fits, grown, held, ordered, scaleOf, withNames, wasRouted } from "../../Middleware/api/console/static/run_list.js";

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

test("the longest run fills the width; above a minute the 90th percentile does, a minute at least", () => {
  assert.equal(scaleOf([run("a", 1, "done", 3), run("b", 1, "done", 59)]), 59);
  const many = [...Array.from({ length: 9 }, (_, i) => run(`${i}`, 1, "done", 70 + i)), run("long", 1, "done", 900)];
  assert.equal(scaleOf(many), 78);
  assert.equal(scaleOf([run("a", 1, "done", 1), run("b", 1, "done", 900)]), 60);
  assert.equal(scaleOf([]), 0);
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
