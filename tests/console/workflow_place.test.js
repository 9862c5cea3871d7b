import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf, below, kindOf, nameOf, placeOf, wayBack } from "../../Middleware/api/console/static/workflows/workflow_place.js";

const read = (address) => {
  const [path, query] = address.slice("#/workflows/".length).split("?");
  return placeOf({ parts: path.split("/").map(decodeURIComponent), query: new URLSearchParams(query ?? "") });
};

test("an address and its place say the same", () => {
  const place = { path: "Workflows/mira/A & B.json", user: "mira", node: 4, via: ["Workflows/mira/Main.json"], pane: "try", run: "5b1e" };
  assert.deepEqual(read(addressOf(place)), place);
});

test("a path without its folder is a workflow's", () => {
  assert.equal(read("#/workflows/mira/Main.json").path, "Workflows/mira/Main.json");
  assert.equal(read("#/workflows/Endpoints/lan/Big.json").path, "Endpoints/lan/Big.json");
  assert.equal(read("#/workflows/").path, "");
});

test("what is no node and no pane is left out", () => {
  const { node, pane } = read("#/workflows/mira/Main.json?node=x&pane=1");
  assert.deepEqual([node, pane], [null, "text"]);
});

test("the way back names each file that one came through", () => {
  const main = read("#/workflows/mira/Main.json?user=mira");
  const deep = below(below(main, "Workflows/mira/Reviewers.json"), "Workflows/mira/CodeFix.json");
  assert.deepEqual(wayBack(deep).map(({ name }) => name), ["Main", "Reviewers"]);
  assert.deepEqual(read(wayBack(deep)[1].address), { ...main, path: "Workflows/mira/Reviewers.json", via: [main.path] });
});

test("a folder tells the kind of file", () => assert.deepEqual(["Workflows/a/b.json", "Endpoints/x/y.json", "z"].map(kindOf), ["workflow", "endpoint", ""]));

test("a shared workflow is named by its folder", () => {
  const paths = ["Workflows/_shared/novel/_DefaultWorkflow.json", "Workflows/mira/_DefaultWorkflow.json", "Workflows/mira/Code.json"];
  assert.deepEqual(paths.map(nameOf), ["novel", "_DefaultWorkflow", "Code"]);
});
