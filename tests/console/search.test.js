// The search of Help, and where links in its pages lead.
import assert from "node:assert/strict";
import test from "node:test";

import { entries, found, target } from "../../Middleware/api/console/static/help/search.js";

const field = (name, description, more = {}) => ({ name, description, kinds: [], enum: null, default: null, ...more });
const INDEX = {
  types: [{ name: "Standard", summary: "Asks a model.", page: "nodes/Standard", fields: [
    field("prompt", "What the model is asked.", { kinds: ["string"] }), field("title", "Its name.", { common: true })] }],
  common: [field("title", "Its name.", { page: "nodes/README" })],
  variables: [{ name: "chat_user_prompt_last_one", description: "The last message of the user.", example: "" }],
  rules: [{ name: "trim_ends", order: 400, summary: "Cuts white space.", page: "rules/trim_ends", keys: [field("trimBeginningAndEndLineBreaks", "Trim white space.", { kinds: ["boolean"], default: false })] }],
  files: [{ kind: "endpoint", title: "Endpoint", fields: [field("apiKey", "The key."), field("reasoningOutput", "Where thoughts go.", { kinds: ["string"], enum: ["drop", "field"], default: "drop" })] }],
  pages: [{ name: "nodes/Standard", title: "Standard" }, { name: "server", title: "The server" }],
};
const names = (words, texts = new Map()) => found(entries(INDEX), words, texts).map((hit) => `${hit.name}: ${hit.where}`);

test("names first: whole, beginning, inside, nearly; then what descriptions say", () => {
  assert.deepEqual(names("prompt"), ["prompt: field of Standard, text", "{chat_user_prompt_last_one}: variable"]);
  assert.deepEqual(names("Standrad").slice(0, 1), ["Standard: node type"]);
  assert.deepEqual(names("{chat"), ["{chat_user_prompt_last_one}: variable"]);
  assert.deepEqual(names("white space"), ["trim_ends: cleaning rule", "trimBeginningAndEndLineBreaks: key of the rule trim_ends, true/false, default false"]);
  assert.deepEqual(names("apikey"), ["apiKey: field of an endpoint file"]);
  assert.deepEqual(names("  "), []);
});

test("a field of a file leads to the page that has it, below the heading of its file", () => {
  const files = [
    ...INDEX.files,
    { kind: "memorysettings", title: "Memory settings", fields: [field("useStateDocument", "Keep one.")] },
    { kind: "compactorsettings", title: "Context compactor settings", fields: [field("keep", "How many.")] },
    { kind: "apitype", title: "API type", fields: [field("thinking", "How.")] },
  ];
  const placeOf = (words) => (({ page, at }) => `${page} ${at}`)(found(entries({ ...INDEX, files }), words, new Map())[0]);
  assert.deepEqual(["apiKey", "useStateDocument", "keep", "thinking"].map(placeOf), [
    "configuration endpoint#apiKey", "memory useStateDocument", "memory the-context-compactor#keep", "configuration api-type#thinking",
  ]);
});

test("a type and its page are one thing, a key of a rule and the field of its file too", () => {
  assert.deepEqual(names("Standard"), ["Standard: node type"]);
  const files = [{ kind: "user", title: "User", fields: [field("trimBeginningAndEndLineBreaks", "Trim.", { kinds: ["boolean"] })] }];
  const hits = found(entries({ ...INDEX, files }), "trimBeginning", new Map([["nodes/Standard", "trimBeginning is no word here"]]));
  assert.deepEqual(hits.map(({ name, where }) => `${name}: ${where}`), [
    "trimBeginningAndEndLineBreaks: field of a user file, true/false", "Standard: page",
  ]);
});

test("a page is found by its text only where nothing else leads to it, and opens at the words", () => {
  const texts = new Map([["nodes/Standard", "prompt, text"], ["server", "A line\nwith the prompt in it"]]);
  assert.deepEqual(found(entries(INDEX), "prompt", texts).filter(({ where }) => where === "page"), [
    { name: "The server", where: "page", text: "with the prompt in it", page: "server", at: "prompt in it" },
  ]);
});

test("last the texts of pages, with the words around", () => {
  const hits = found(entries(INDEX), "waitress", new Map([["server", "# The server\n\nIt runs on waitress, which is pure Python."]]));
  assert.deepEqual(hits.map((hit) => hit.page), ["server"]);
  assert.match(hits[0].text, /It runs on waitress, which/);
});

test("what may stand in a field, and what holds without it, is told with its name", () => {
  assert.deepEqual(names("reasoningOutput"), ['reasoningOutput: field of an endpoint file, drop or field, default "drop"']);
});

test("a field that every node has is told once", () => {
  assert.deepEqual(names("title"), ["title: field of every node"]);
});

test("links lead to pages of Help, outside, or nowhere", () => {
  const pages = new Set(["nodes/Standard", "nodes/README", "server", "rules/trim_ends"]);
  assert.deepEqual(target("../rules/trim_ends.md#keys", "nodes/Standard", pages), { page: "rules/trim_ends", at: "keys" });
  assert.deepEqual(target("README.md", "nodes/Standard", pages), { page: "nodes/README", at: "" });
  assert.deepEqual(target("nodes/", "server", pages), { page: "nodes/README", at: "" });
  assert.deepEqual(target("#here", "server", pages), { page: "server", at: "here" });
  assert.deepEqual(target("https://example.org/x", "server", pages), { outside: "https://example.org/x" });
  for (const to of ["../README.md", "../../x.md", "missing.md", "javascript:alert(1)", "data:text/html,x"]) assert.equal(target(to, "server", pages), null, to);
});

test("words are found one by one: in descriptions, and in one line of a page, which leads there", () => {
  const common = [field("maxResponseSizeInTokens", "How long the answer may get at most (its length limit).", { page: "nodes/README" })];
  const files = [{ kind: "memorysettings", title: "Memory settings", fields: [field("maxResponseSizeInTokens", "How long a memory may get.")] }];
  const types = [{ ...INDEX.types[0], fields: [field("maxResponseSizeInTokens", "Of a step.")] }];
  const all = entries({ ...INDEX, types, common, files });
  for (const words of ["answer length", "limit the length of an answer", "how long the answer may get", "longest answers"])
    assert.deepEqual(found(all, words, new Map()).map(({ where }) => where), ["field of every node"], words);
  assert.deepEqual(found(all, "maxResponseSizeInTokens", new Map()).map(({ where }) => where), [
    "field of every node", "field of Standard", "field of a memory settings file",
  ]);
  const texts = new Map([["server", "It starts.\nPython is what it is written in, and it runs on waitress."]]);
  assert.deepEqual(found(all, "runs in python", texts).map(({ page, at }) => [page, at]), [["server", "Python is what it is written in"]]);
});

test("what has most of the words is found where nothing has all", () => {
  assert.deepEqual(names("zzz white space"), ["trim_ends: cleaning rule", "trimBeginningAndEndLineBreaks: key of the rule trim_ends, true/false, default false"]);
  assert.deepEqual(names("zzz yyy space"), []);
});
