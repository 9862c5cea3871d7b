import assert from "node:assert/strict";
import test from "node:test";
import { addressOf, placeIn } from "../../Middleware/api/console/static/shared/address.js";

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
