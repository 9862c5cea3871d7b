import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { applied } from "../../Middleware/api/console/static/workflows/json_edit.js";
import {
  answering, beside, groupsOf, indented, insertion, insertions, listIn, moving, newNode, nodesPasted, retitled,
} from "../../Middleware/api/console/static/workflows/node_list.js";

const field = (name, more = {}) => ({ name, required: false, kinds: ["string"], enum: null, default: null, description: "", common: false, group: "own", form: "line", fills: true, ...more });
const types = [
  { name: "Standard", summary: "Asks a model.", page: "", calls_model: true, group: "model", fields: [field("endpointName", { required: true, group: "model", form: "names:endpoints" })] },
  { name: "StaticResponse", summary: "A fixed text.", page: "", calls_model: false, group: "text", fields: [] },
];
const known = { kind: "workflow", names: { endpoints: ["First"] }, index: { types, common: [field("preset", { group: "model", form: "names:presets", of_models: true })], variables: [], files: [] } };
const made = (text, type = "Standard", group = null) => newNode(text, listIn(text), type, known, group);
const after = (text, steps) => JSON.parse(steps.reduce(applied, text));

describe("a new node", () => {
  test("has the endpoint and preset that the file uses most, and a title that is new", () =>
    assert.deepEqual(JSON.parse(made('[{"title": "Standard", "endpointName": "Big", "preset": "Warm"}]')), { title: "Standard 2", type: "Standard", endpointName: "Big", preset: "Warm" }));
  test("the first endpoint of the user in an empty file", () => assert.equal(JSON.parse(made("[]")).endpointName, "First"));
  test("no endpoint at all: the field is empty", () =>
    assert.equal(JSON.parse(newNode("[]", listIn("[]"), "Standard", { ...known, names: {} }, null)).endpointName, ""));
  test("runs with its group", () => assert.equal(JSON.parse(made("[]", "StaticResponse", "critics")).parallelGroup, "critics"));
  test("is laid out as the others", () => {
    assert.ok(!made('[{"title": "a"}]').includes("\n"));
    assert.ok(made('[\n\t{\n\t\t"title": "a"\n\t}\n]').startsWith('{\n\t\t"title"'));
  });
});

describe("what is pasted", () => {
  test("one node or a list of them", () => assert.deepEqual([nodesPasted('{"a": 1}').nodes.length, nodesPasted('[{"a": 1}, {"b": 2}]').nodes.length], [1, 2]));
  test("the nodes of a whole workflow", () => assert.deepEqual(nodesPasted('{"x": 1, "nodes": [{"a": 1}, {"b": 2}]}').nodes, ['{"a": 1}', '{"b": 2}']));
  test("no node at all", () => assert.deepEqual(["words", "[]", "{}", "7", '{"nodes": []}', "[7]"].map(nodesPasted), [null, null, null, null, null, null]));
  test("a secret that was masked is empty", () => assert.deepEqual(nodesPasted('{"key": "***"}'), { nodes: ['{"key": ""}'], masked: true }));
  test("gets a new title, and lines as deep as here", () => {
    const text = '[\n    {"title": "A"}\n]';
    const list = listIn(text);
    assert.equal(indented(retitled('{\n  "title": "A"\n}', list), text, list), '{\n      "title": "A 2"\n    }');
  });
});

describe("the flags of nodes", () => {
  const text = '[{"title": "a", "is_responder": true}, {"title": "b", "is_responder": false}, {"title": "c", "returnToUser": true}]';
  test("one answers, and it says so itself", () =>
    assert.deepEqual(after(text, answering(text, 2)), [{ title: "a" }, { title: "b", returnToUser: true }, { title: "c" }]));
  test("two run together", () => {
    assert.deepEqual(after(text, beside(text, 2)).map((node) => node.parallelGroup), ["together", "together", undefined]);
    const named = '[{"parallelGroup": "x"}, {"parallelGroup": "y"}]';
    assert.deepEqual(after(named, beside(named, 2)).map((node) => node.parallelGroup), ["x", "x"]);
  });
});

describe("the palette", () => {
  const names = (most) => groupsOf(types, most).filter(({ items }) => items.length).map(({ title, items }) => [title, items.map(({ name }) => name)]);
  test("what is used most stands first", () =>
    assert.deepEqual(names(["StaticResponse"]), [["Used most here", ["StaticResponse"]], ["Ask a model", ["Standard"]], ["Text and logic", ["StaticResponse"]]]));
});

test("a text that changed meanwhile is asked for again", async () => {
  let text = "[]";
  const asked = [];
  const renumber = async (body) => {
    asked.push(body);
    if (asked.length === 1) text = '[{"title": "typed"}]';
    return { changes: [], lost: ["told"] };
  };
  const { steps, lost } = await insertion({ text: () => text, user: "mira", renumber }, 1, () => '{"title": "new"}');
  assert.deepEqual(asked.map((body) => [body.text, body.insert, body.user]), [["[]", 1, "mira"], [text, 1, "mira"]]);
  assert.deepEqual([after(text, steps).map(({ title }) => title), lost], [["new", "typed"], ["told"]]);
});

test("of several nodes that come in, numbers follow for each, and each has a title of its own", async () => {
  const text = '[{"title": "A"}, {"title": "B", "prompt": "{agent2Output}"}]';
  const asked = [];
  const renumber = async (body) => {
    asked.push([body.insert, JSON.parse(body.text).map(({ title = "" }) => title).join()]);
    const at = body.text.indexOf("agent") + 5;
    return { changes: [[at, at + 1, String(Number(body.text[at]) + 1)]], lost: ["told"] };
  };
  const writes = ['{"title": "A"}', '{"title": "A", "prompt": "{agent2Output}"}'].map((node) => (now, list) => retitled(node, list));
  const { steps, lost } = await insertions({ text: () => text, user: "", renumber }, 2, writes);
  assert.deepEqual(asked, [[2, "A,B"], [2, "A,,B"]]);
  assert.deepEqual(after(text, steps), [
    { title: "A" }, { title: "A 2" }, { title: "A 3", prompt: "{agent2Output}" }, { title: "B", prompt: "{agent4Output}" },
  ]);
  assert.deepEqual(lost, ["told"]);
});

test("a node that moves keeps its group, gets another one or leaves it, in the same steps", async () => {
  const text = '[{"title": "a", "parallelGroup": "x"}, // one\n {"title": "b"}]';
  const asked = [];
  const renumber = async ({ move }) => {
    asked.push(move);
    return { changes: [], lost: ["told"] };
  };
  const doc = { text: () => text, user: "", renumber };
  const moved = async (...how) => {
    const { steps, lost } = await moving(doc, 1, 2, ...how);
    assert.deepEqual(lost, ["told"]);
    return steps.reduce(applied, text);
  };
  assert.equal(await moved(), '[{"title": "b"},\n {"title": "a", "parallelGroup": "x"} // one\n]');
  assert.equal(await moved("y"), '[{"title": "b"},\n {"title": "a", "parallelGroup": "y"} // one\n]');
  assert.equal(await moved(""), '[{"title": "b"},\n {"title": "a"} // one\n]');
  assert.deepEqual(asked, [[1, 2], [1, 2], [1, 2]]);
});
