import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  controlOf,
  fieldOf,
  firstValue,
  formOf,
  isJson,
  isNumberLike,
  labelOf,
  numberWritten,
} from "../../Middleware/api/console/static/workflows/form_model.js";
import { read } from "../../Middleware/api/console/static/workflows/json_tree.js";

const field = (name, more = {}) => ({ name, required: false, kinds: ["string"], enum: null, default: null, description: "", common: false, group: "own", form: "line", fills: true, ...more });
const index = {
  types: [{ name: "Standard", summary: "Asks.", page: "nodes/Standard", calls_model: true, group: "model", fields: [field("endpointName", { required: true, group: "model", form: "names:endpoints" })] },
    { name: "Save", summary: "Saves.", page: "nodes/Save", calls_model: false, group: "files", fields: [field("path", { required: true })] }],
  common: [field("type", { group: "what", form: "choice" }), field("title", { group: "what", of_models: false }), field("prompt", { group: "prompts", form: "text", of_models: true }), field("jinja2", { group: "prompts", form: "switch", of_models: false })],
  variables: [], files: [],
};
const form = (text) => formOf(read(text).root, index);
const shown = (text) => form(text).groups.map(({ name, fields }) => [name, fields.map((one) => one.field.name)]);
const value = (text) => read(text).root;

describe("the fields of a node", () => {
  test("title and type first, required ones though nothing is written, then what is set", () =>
    assert.deepEqual(shown('{"prompt": "x", "jinja2": true}'), [["what", ["title", "type"]], ["model", ["endpointName"]], ["prompts", ["prompt", "jinja2"]]]));
  test("what a type does not know stands last", () =>
    assert.deepEqual(shown('{"type": "Save", "odd": 1, "prompt": "x"}'), [["what", ["title", "type"]], ["own", ["path"]], ["prompts", ["prompt"]], ["unknown", ["odd"]]]));
  test("the rest may be added", () => assert.deepEqual(form("{}").rest.map(({ name }) => name), ["prompt", "jinja2"]));
  test("of a key that is there twice the last one is shown, and said", () => {
    const [title] = form('{"title": "a", "title": "b"}').groups[0].fields;
    assert.deepEqual([title.tree.value, title.twice], ["b", true]);
  });
});

describe("how a value is written", () => {
  const control = (made, text) => controlOf(field("x", { form: made }), value(text));
  for (const [made, text, wanted] of [
    ["line", '"a"', "line"], ["line", '"a\\nb"', "text"], ["line", "1", "json"], ["number", "1", "number"], ["number", '"{x}"', "number"],
    ["number", "true", "json"], ["switch", "true", "switch"], ["switch", '"yes"', "json"], ["texts", '["a"]', "texts"], ["texts", "[1]", "json"],
    ["map", '{"a": "b"}', "map"], ["map", "[]", "json"], ["names:endpoints", '"Big"', "names"], ["json", "[1]", "json"]])
    test(`${made} with ${text}`, () => assert.equal(control(made, text), wanted));
  test("a number stays one, what has a placeholder is a text", () =>
    assert.deepEqual(["400", "007", "{x}", "1.5", ""].map(numberWritten), ["400", '"007"', '"{x}"', "1.5", '""']));
  test("what a number box may hold", () => assert.deepEqual(["4", "-1.5", "{x}", "four", ""].map(isNumberLike), [true, true, true, false, false]));
  test("what an added field begins with", () =>
    assert.deepEqual(["switch", "texts", "map", "number", "text"].map((made) => firstValue(field("x", { form: made, default: null }))), ["true", "[]", "{}", "0", '""']));
});

describe("names", () => {
  test("in words", () =>
    assert.deepEqual(["maxResponseSizeInTokens", "addDiscussionIdTimestampsForLLM", "scoped_variables"].map(labelOf), ["Max response size in tokens", "Add discussion id timestamps for LLM", "Scoped variables"]));
  test("of the field in a pointer", () => assert.deepEqual(["/nodes/4/prompt", "/0/a~1b/1", "/nodes"].map(fieldOf), ["prompt", "a/b", ""]));
});

test("JSON as people write it", () => assert.deepEqual(['{"a": 1, /* c */}', "{", '["// no"] // yes'].map(isJson), [true, false, true]));
