import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { completionsAt, describedAt, distance } from "../../Middleware/api/console/static/workflows/completion.js";

const field = (name, more = {}) => ({ name, required: false, kinds: ["string"], enum: null, default: null, description: `About ${name}.`, common: false, group: "own", form: "line", fills: true, ...more });
const named = { form: "names:endpoints" };
const index = {
  types: [
    { name: "Standard", summary: "Asks a model.", page: "nodes/Standard", calls_model: true, fields: [
      field("endpointName", { required: true, ...named }), field("prompt")] },
    { name: "SaveCustomFile", summary: "Writes a file.", page: "nodes/SaveCustomFile", calls_model: false, fields: [field("filepath", { required: true }), field("content", { required: true })] },
    { name: "ConditionalCustomWorkflow", summary: "Branches.", page: "nodes/ConditionalCustomWorkflow", calls_model: false, fields: [field("conditionalWorkflows", { kinds: ["object"], required: true, form: "map", of: "names:workflows" })] },
  ],
  common: [field("type", { common: true }), field("title", { common: true, of_models: false }),
    field("returnToUser", { kinds: ["boolean"], default: false, common: true, of_models: false }), field("onNodeError", { enum: ["fail", "continue"], default: "fail", common: true, of_models: false }),
    field("endpointName", { common: true, of_models: true, ...named }), field("preset", { common: true, of_models: true, form: "names:presets" })],
  variables: [{ name: "chat_user_prompt_last_one", description: "The last message." }, { name: "agent1Output", description: "An output." }],
  files: [{ kind: "endpoint", fields: [field("endpoint", { required: true }), field("maxContextTokenSize", { kinds: ["integer"], default: 4096 })] }],
};
const names = { endpoints: ["Big", "Small"], presets: ["Warm"], workflows: ["CodeFix", "Prose"], structured_outputs: ["person"], variables: ["my_city"] };
const known = { kind: "workflow", index, names };

/** Completes at the mark `|` of a text. */
const complete = (marked, wanted = known) => completionsAt(marked.replace("|", ""), marked.indexOf("|"), wanted);
const labels = (marked, wanted) => complete(marked, wanted)?.choices.map(({ label }) => label) ?? null;
/** The text after the choice was taken, with the cursor shown. */
const taken = (marked, label, wanted) => {
  const text = marked.replace("|", "");
  const { from, to, choices } = complete(marked, wanted);
  const { insert, cursor } = choices.find((choice) => choice.label === label);
  return text.slice(0, from) + insert.slice(0, cursor) + "|" + insert.slice(cursor) + text.slice(to);
};

describe("a key", () => {
  test("missing fields of the node's type: required ones first, then its own, then common ones", () => {
    assert.deepEqual(labels('{"nodes": [{"prompt": "", |}]}'), ["endpointName", "type", "preset", "title", "returnToUser", "onNodeError"]);
  });
  test("a type of its own has its own fields, and those of models only where it calls one", () => {
    assert.deepEqual(labels('{"nodes": [{"type": "SaveCustomFile", |}]}'), ["filepath", "content", "title", "returnToUser", "onNodeError"]);
  });
  test("a node without a type, and one of an unknown type, runs as Standard", () => {
    assert.equal(labels('[{"type": "Standrad", "|"}]')[0], "endpointName");
    assert.equal(labels('[{|}]')[0], "endpointName");
  });
  test("is written with what its value begins with, and the cursor inside", () => {
    assert.equal(taken('{"nodes": [{|}]}', "endpointName"), '{"nodes": [{"endpointName": "|"}]}');
    assert.equal(taken('{"nodes": [{"ret|"}]}', "returnToUser"), '{"nodes": [{"returnToUser": true|}]}');
    assert.ok(taken('[{"type": "ConditionalCustomWorkflow", |}]', "conditionalWorkflows").includes('"conditionalWorkflows": {|}'));
  });
  test("gets a comma where another member follows", () => {
    assert.equal(taken('{"nodes": [{"en|"\n"title": "A"}]}', "endpointName"), '{"nodes": [{"endpointName": "|",\n"title": "A"}]}');
  });
  test("that has its value is only renamed", () => {
    assert.equal(taken('[{"end|": "Big"}]', "endpointName"), '[{"endpointName"|: "Big"}]');
  });
  test("of an endpoint file comes from that kind", () => {
    assert.deepEqual(labels('{"|"}', { ...known, kind: "endpoint" }), ["endpoint", "maxContextTokenSize"]);
    assert.equal(taken('{|}', "maxContextTokenSize", { ...known, kind: "endpoint" }), '{"maxContextTokenSize": 4096|}');
  });
  test("inside an object that a node holds is nobody's to guess", () => {
    assert.equal(labels('[{"conditionalWorkflows": {"|"}}]'), null);
  });
});

describe("a value", () => {
  test("of an enum, the default named", () => {
    const { choices } = complete('[{"onNodeError": "|"}]');
    assert.deepEqual(choices.map(({ label, detail }) => [label, detail]), [["fail", "default"], ["continue", ""]]);
  });
  test("true or false", () => assert.deepEqual(labels('[{"returnToUser": |}]'), ["true", "false"]));
  test("names of endpoints, presets, workflows and types", () => {
    assert.deepEqual(labels('[{"endpointName": "|"}]'), ["Big", "Small"]);
    assert.deepEqual(labels('[{"preset": |}]'), ["Warm"]);
    assert.deepEqual(labels('[{"type": "|"}]'), ["Standard", "SaveCustomFile", "ConditionalCustomWorkflow"]);
    assert.deepEqual(labels('[{"type": "ConditionalCustomWorkflow", "conditionalWorkflows": {"code": "|"}}]'), ["CodeFix", "Prose"]);
  });
  test("the nearest name first, also for a slip", () => {
    assert.deepEqual(labels('[{"endpointName": "Smal|"}]'), ["Small", "Big"]);
    assert.deepEqual(labels('[{"type": "SaveCustmFile|"}]')[0], "SaveCustomFile");
    assert.ok(distance("Smll", "Small") < distance("Smll", "Big"));
  });
  test("replaces the whole string", () => {
    assert.equal(taken('[{"endpointName": "Sm|xx", "title": ""}]', "Small"), '[{"endpointName": "Small"|, "title": ""}]');
  });
  test("of a free text: nothing", () => assert.equal(labels('[{"prompt": "Hello |"}]'), null));
});

describe("a variable", () => {
  const text = (prompt) => `{"city": "Nantes", "nodes": [{"title": "Draft"}, {}, {"prompt": "${prompt}"}, {}]}`;
  test("outputs of earlier nodes with their titles, the last one first, then file, user, engine", () => {
    const { choices } = complete(text("so {|"));
    assert.deepEqual(choices.map(({ label, info }) => [label, info]).slice(0, 3), [["agent2Output", "Standard"], ["agent1Output", "Draft"], ["city", "Nantes"]]);
    assert.deepEqual(choices.map(({ label }) => label).slice(3), ["my_city", "chat_user_prompt_last_one"]);
  });
  test("is closed, once", () => {
    assert.ok(taken(text("so {agent|"), "agent1Output").includes('"so {agent1Output}|"'));
    assert.ok(taken(text("so {agent|}"), "agent1Output").includes('"so {agent1Output|}'));
  });
});

test("nothing is offered in a comment, behind a value, or in an empty text", () => {
  for (const text of ['[{"a": 1 // |\n}]', '[{"a": 1 |}]', "|"]) assert.equal(complete(text), null);
});

test("a half-typed text is understood: an open string ends with its line", () => {
  assert.deepEqual(labels('{"nodes": [{"endpointName": "S|\n}, {"title": "B"}]}'), ["Small", "Big"]);
});

describe("what stands there", () => {
  const described = (marked) => describedAt(marked.replace("|", ""), marked.indexOf("|"), known);
  test("a key: its kinds, default, words and page", () => {
    assert.deepEqual(described('[{"onNode|Error": "fail"}]'), { from: 2, to: 15, title: "onNodeError", kind: "string", usual: '"fail"', description: "About onNodeError.", page: "nodes/Standard" });
  });
  test("a type and a variable", () => {
    assert.equal(described('[{"type": "Save|CustomFile"}]').page, "nodes/SaveCustomFile");
    assert.equal(described('[{"prompt": "a {chat_user|_prompt_last_one}"}]').description, "The last message.");
  });
  test("nothing is told of a plain text or an unknown key", () => {
    assert.equal(described('[{"prompt": "He|llo"}]'), null);
    assert.equal(described('[{"mine|": 1}]'), null);
  });
});

test("no place of a broken text is too odd", () => {
  const text = '{"nodes": [{"type": "Standard", "prompt": "{agent1Output}", // x\n "a": [1, {"b": }]}}, ]"';
  for (let cut = 0; cut <= text.length; cut++)
    for (let at = 0; at <= cut; at++) {
      completionsAt(text.slice(0, cut), at, known);
      describedAt(text.slice(0, cut), at, known);
    }
});
