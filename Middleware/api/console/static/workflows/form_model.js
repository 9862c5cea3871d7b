// @ts-check
// A node as a form: which fields it shows, in which groups, and how each is written. Pure. No field is known by name:
// all of it comes from the index of Help. Source: spec workbench.md 1.
import { fieldsOf, typeNamed, typeOf } from "./completion.js";
import { memberOf } from "./json_edit.js";

/**
 * @typedef {import("./completion.js").Field} Field
 * @typedef {import("./completion.js").Index} Index
 * @typedef {import("./json_tree.js").Tree} Tree
 * @typedef {{field: Field, tree: Tree | null, control: string, twice: boolean}} Shown `tree`: its value; `control`: how
 *   it is written, `json` where the value is of a kind that the field does not have; `twice`: the key is there again
 * @typedef {{name: string, title: string, fields: Shown[]}} Group
 */

export const GROUPS = [
  ["what", ""],
  ["own", "What it does"],
  ["model", "Model"],
  ["prompts", "Prompts"],
  ["conversation", "Conversation"],
  ["answer", "Answer and cleaning"],
  ["tools", "Tools"],
  ["run", "Run"],
];
/** Shown though nothing is written. */
const ALWAYS = ["title", "type"];
/** What nobody reads and nobody minds. */
const REMARK = /^(?:_|\/\/|comment|description$|\$schema$)/i;

/**
 * @param {Tree} node an object
 * @param {Index} index
 * @returns {{groups: Group[], rest: Field[]}} `rest`: what may be added
 */
export function formOf(node, index) {
  const type = typeNamed(index, typeOf(node));
  const fitting = fieldsOf(type, index).map((field) => ({ ...field, ...statedIn(index, field.name) }));
  const named = new Set(fitting.map(({ name }) => name));
  const keys = [...new Set(node.members.map(({ key }) => key))];
  const others = keys
    .filter((key) => !named.has(key))
    .map((key) => index.common.find(({ name }) => name === key) ?? key);
  const common = others.filter((field) => typeof field !== "string");
  const unknown = others.filter((field) => typeof field === "string").map(unknownField);
  const isShown = (/** @type {Field} */ { name, required }) => required || ALWAYS.includes(name) || keys.includes(name);
  const shown = [...fitting, ...common].filter(isShown);
  const groups = GROUPS.map(([name, title]) => ({
    name,
    title,
    fields: inOrder(
      shown.filter((field) => field.group === name),
      keys,
    ).map((field) => shownField(node, field)),
  }));
  const strange = { name: "unknown", title: "Not known here", fields: unknown.map((field) => shownField(node, field)) };
  return {
    groups: [...groups, strange].filter(({ fields }) => fields.length),
    rest: fitting.filter((field) => !isShown(field)),
  };
}

/**
 * The title first, then what is required, then what is set, as it is written.
 * @param {Field[]} fields
 * @param {string[]} keys
 */
function inOrder(fields, keys) {
  const rank = (/** @type {Field} */ { name, required }) =>
    ALWAYS.includes(name) ? ALWAYS.indexOf(name) - 9 : required ? -1 : keys.indexOf(name);
  return [...fields].sort((a, b) => rank(a) - rank(b));
}

/**
 * What the index says of the type itself, which completion knows by its own words.
 * @param {Index} index
 * @param {string} name
 */
function statedIn({ types, common }, name) {
  if (name !== "type") return {};
  const stated = common.find((field) => field.name === name);
  return { ...stated, default: "Standard", enum: types.map((type) => type.name), form: "choice" };
}

/** @param {string} name @returns {Field} */
const unknownField = (name) => ({
  name,
  required: false,
  kinds: [],
  enum: null,
  default: null,
  description: REMARK.test(name) ? "A remark, which nothing reads." : "",
  common: false,
  group: "unknown",
  form: "line",
  fills: false,
});

/** @param {Tree} node @param {Field} field @returns {Shown} */
function shownField(node, field) {
  const tree = memberOf(node, field.name)?.value ?? null;
  const twice = node.members.filter(({ key }) => key === field.name).length > 1;
  return { field, tree, control: controlOf(field, tree), twice };
}

/**
 * How a value is written: as its field says, where it is of a kind that this can show.
 * @param {Field} field @param {Tree | null} tree
 */
export function controlOf({ form, enum: words, fills }, tree) {
  const control = form.startsWith("names:") ? "names" : form;
  if (!tree) return control;
  const { kind, value, members } = tree;
  const isText = kind === "value" && typeof value === "string";
  const areTexts = members.every((member) => typeof member.value?.value === "string");
  const fits = {
    line: isText,
    text: isText,
    names: isText,
    number: isText || typeof value === "number",
    switch: typeof value === "boolean",
    choice: isText && (fills || !words || words.includes(value)),
    texts: kind === "array" && areTexts,
    map: kind === "object" && areTexts,
  }[control];
  if (!fits) return "json";
  return control === "line" && String(value).includes("\n") ? "text" : control;
}

/** `Max response size in tokens` of `maxResponseSizeInTokens`. @param {string} name */
export function labelOf(name) {
  const words = name
    .replace(/_/g, " ")
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .split(" ")
    .map((word) => (/^[A-Z\d]{2,}$/.test(word) ? word : word.toLowerCase()))
    .join(" ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A number as JSON, where that is what is typed; else a text. @param {string} typed */
export const numberWritten = (typed) => (String(Number(typed)) === typed.trim() ? typed.trim() : JSON.stringify(typed));

/** Whether a number box holds what it may: digits or a placeholder. @param {string} typed */
export const isNumberLike = (typed) => /^\s*-?\d+(?:\.\d+)?\s*$/.test(typed) || typed.includes("{");

/** The value that an added field begins with, as JSON. @param {Field} field */
export function firstValue({ form, kinds, enum: words, default: usual }) {
  if (form === "switch") return JSON.stringify(usual !== true);
  if (form === "texts") return "[]";
  if (form === "map") return "{}";
  if (usual !== null && usual !== undefined) return JSON.stringify(usual);
  if (form === "number") return "0";
  if (form === "choice" && words?.length) return JSON.stringify(words[0]);
  if (form === "json") return kinds[0] === "array" ? "[]" : kinds[0] === "object" ? "{}" : '""';
  return '""';
}

const TOKEN = /"(?:[^"\\\n]|\\.)*"|\/\/[^\n]*|\/\*[^]*?\*\//g;
const COMMA = /"(?:[^"\\\n]|\\.)*"|,(?=\s*[\]}])/g;

/** Whether a text is JSON as people write it. @param {string} text */
export function isJson(text) {
  try {
    const bare = text.replace(TOKEN, (word) => (word[0] === '"' ? word : " "));
    JSON.parse(bare.replace(COMMA, (word) => (word === "," ? "" : word)));
    return true;
  } catch {
    return false;
  }
}

/** What of a pointer stands behind its node. @param {string} pointer */
export const fieldOf = (pointer) =>
  (/^(?:\/nodes)?\/\d+\/([^/]*)/.exec(pointer)?.[1] ?? "").replace(/~1/g, "/").replace(/~0/g, "~");
