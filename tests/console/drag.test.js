import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { spotAt, stepTo } from "../../Middleware/api/console/static/workflows/geometry.js";

// One card, two beside each other in a frame, one card; a `+` before each row and behind the last, and at the members.
const plus = (n, left, top, group = "", frame = undefined) => ({ n, group, box: { left, top, right: left + 20, bottom: top + 20 }, frame });
const frame = { left: -10, top: 80, right: 380, bottom: 160 };
const spots = [
  plus(1, 12, -20), plus(2, 12, 55), plus(4, 12, 165), plus(5, 12, 245),
  plus(2, -16, 114, "g", frame), plus(3, 174, 114, "g", frame), plus(4, 364, 114, "g", frame),
];
const found = (x, y) => {
  const { n, group } = spotAt(x, y, spots);
  return `${n}${group}`;
};

describe("where a card comes in", () => {
  test("between two rows, however far to the side", () => assert.deepEqual([found(20, 50), found(900, 70), found(900, 170)], ["2", "2", "4"]));
  test("before the first, behind the last", () => assert.deepEqual([found(100, -300), found(100, 900)], ["1", "5"]));
  test("within a group, over its frame alone", () => assert.deepEqual([found(0, 120), found(200, 90), found(370, 150), found(390, 120)], ["2g", "3g", "4g", "2"]));
});

describe("what letting it go there does", () => {
  test("numbers behind its old place are one less by then", () => {
    assert.deepEqual(stepTo(1, "", { n: 4, group: "" }), { from: 1, n: 3 });
    assert.deepEqual(stepTo(4, "", { n: 1, group: "" }), { from: 4, n: 1 });
  });
  test("at its own place nothing", () => assert.deepEqual([2, 3].map((n) => stepTo(2, "g", { n, group: "g" })), [null, null]));
  test("into a group, and out of one, even if its number stays", () => {
    assert.deepEqual(stepTo(4, "", { n: 4, group: "g" }), { from: 4, n: 4, group: "g" });
    assert.deepEqual(stepTo(3, "g", { n: 4, group: "" }), { from: 3, n: 3, group: "" });
  });
});
