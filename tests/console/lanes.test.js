import assert from "node:assert/strict";
import { test } from "node:test";
import { hueOf } from "../../Middleware/api/console/static/shared/names.js";
import { arcsOf, edgesOf, huesOf } from "../../Middleware/api/console/static/workflows/geometry.js";

const uses = (n, ...of) => ({ n, uses: of.map((number) => ({ n: number, what: "output", field: "prompt" })) });
/** The lanes of arcs beside rows that are all 200 px wide. */
const lanesOf = (arcs) => edgesOf(arcs, Array(12).fill(200), Array(12).fill(200)).map((edge) => (edge - 216) / 12);

test("the arcs of the vector lie in the lanes that the specification names (16.5)", () => {
  const rows = [[1], [2, 3], [4], [5], [6]];
  const nodes = [uses(1), uses(2, 1), uses(3, 1), uses(4, 2), uses(5, 3, 4, 6), uses(6, 5)];
  const arcs = arcsOf(rows, nodes);
  const lanes = lanesOf(arcs);
  assert.deepEqual(Object.fromEntries(arcs.map(({ from, to }, at) => [`${from + 1},${to + 1}`, lanes[at]])), { "1,2": 0, "2,3": 0, "3,4": 0, "4,5": 0, "2,4": 1 });
});

test("an arc knows every node at its ends, so that each can light it", () => {
  const [arc] = arcsOf([[1], [2, 3]], [uses(1), uses(2, 1), uses(3, 1)]);
  assert.deepEqual(arc.ends, [1, 2, 3]);
});

test("no arc leads upward, to its own row, or to a node that is not there", () => {
  assert.deepEqual(arcsOf([[1], [2, 3]], [uses(1, 2, 9), uses(2, 3), uses(3, 3)]), []);
});

test("arcs that overlap never share a lane", () => {
  const rows = Array.from({ length: 12 }, (_, at) => [at + 1]);
  const nodes = rows.map(([n]) => uses(n, ...Array.from({ length: n - 1 }, (_, at) => at + 1)));
  const arcs = arcsOf(rows, nodes);
  assert.equal(arcs.length, 66);
  const lanes = lanesOf(arcs);
  const clash = arcs.some((a, i) => arcs.some((b, k) => a !== b && lanes[i] === lanes[k] && a.from < b.to && b.from < a.to));
  assert.equal(clash, false);
});

test("each endpoint has its hue; a name that only a run knows goes by what is written", () => {
  const hues = huesOf([{ endpoint: { name: "Big", written: "Big" } }, { endpoint: null }, { endpoint: { name: null, written: "{agent1Output}" } }]);
  assert.deepEqual([...hues], [["Big", hueOf("Big")], ["{agent1Output}", hueOf("{agent1Output}")]]);
});

test("an arc keeps to the rows that it passes: a wide row elsewhere pushes it nowhere", () => {
  const arcs = arcsOf([[1], [2], [3]], [uses(1), uses(2, 1), uses(3, 2)]);
  assert.deepEqual(edgesOf(arcs, [700, 200, 200], [700, 200, 200]), [716, 216]);
});

test("what hangs below a card pushes the arcs that leave it, not those that come in above", () => {
  const arcs = arcsOf([[1], [2], [3]], [uses(1), uses(2, 1), uses(3, 2)]);
  assert.deepEqual(edgesOf(arcs, [200, 500, 200], [200, 200, 200]), [216, 516]);
});
