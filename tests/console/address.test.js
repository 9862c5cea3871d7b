import assert from "node:assert/strict";
import test from "node:test";
import { addressOf, barPage, placeIn, wayTo } from "../../Middleware/api/console/static/shared/address.js";

test("an address is read back as it was made, whatever its parts hold", () => {
  const parts = ["Workflows", "mira & jo", "a?b#c%d/e.json"];
  const address = addressOf("workflows", parts, { user: "mira", node: 3, none: "" });
  const { page, parts: read, query } = placeIn(address);
  assert.deepEqual([page, read, [...query]], ["workflows", parts, [["user", "mira"], ["node", "3"]]]);
});

test("no fragment is Runs; a part that is no code stays as it is", () => {
  assert.equal(placeIn("").page, "runs");
  assert.deepEqual(placeIn("#/runs/%zz").parts, ["%zz"]);
});

test("the bar leads back to what was open on a page, and from there on to its list", () => {
  const left = { runs: "#/runs/5b1e?node=3", help: "" };
  assert.deepEqual(["runs", "help", "overview"].map((name) => wayTo(name, "workflows", left)), ["#/runs/5b1e?node=3", "#/help", "#/overview"]);
  assert.deepEqual(["runs", "chats"].map((page) => wayTo("runs", page, left)), ["#/runs", "#/runs"]);
});

test("a page that stands in another one is the same of the bar", () =>
  assert.deepEqual(["chats", "model-names", "runs", "compare"].map(barPage), ["runs", "workflows", "runs", "compare"]));
