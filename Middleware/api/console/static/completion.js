// @ts-check
// What may be written at a place of a config file, and what stands there: from the index of Help and the names
// that exist for the user. Pure. Source: spec console.md 9.5.
import { lettersToChange } from "./letters.js";
import { nodeHolding, nodesIn, placeAt, read, valueAt } from "./json_tree.js";

/**
 * @typedef {import("./json_tree.js").Tree} Tree
 * @typedef {{name: string, required: boolean, kinds: string[], enum: unknown[] | null, default: unknown, description: string, common: boolean, of_models?: boolean}} Field
 * @typedef {{name: string, summary: string, page: string, calls_model: boolean, fields: Field[]}} NodeType
 * @typedef {{types: NodeType[], common: Field[], variables: {name: string, description: string, example?: string}[], files: {kind: string, fields: Field[]}[]}} Index
 * @typedef {{endpoints?: string[], presets?: string[], workflows?: string[], structured_outputs?: string[],
 *   prompt_templates?: string[], mcp_servers?: string[], api_types?: string[], variables?: string[]}} Names
 * @typedef {{kind: string, index: Index, names: Names}} Known `kind`: `workflow`, or a kind of file of the index (`endpoint`)
 * @typedef {{label: string, detail: string, info: string, insert: string, cursor: number, sort: number}} Choice `cursor`: in `insert`
 */

const DEFAULT_TYPE = "Standard";
/** Fields whose values are names of files: what they name. */
const NAMED = /** @type {Record<string, keyof Names>} */ ({
  endpointName: "endpoints", embeddingEndpointName: "endpoints", backupEndpointName: "endpoints", preset: "presets", presetName: "presets",
  workflowName: "workflows", fileMemoryWorkflowName: "workflows", structuredOutputFile: "structured_outputs", server: "mcp_servers",
  apiTypeConfigFileName: "api_types", promptTemplate: "prompt_templates",
});

/** @param {Tree | null} node @returns {string} the type a node runs as */
const typeOf = (node) => String(valueAt(node, "type")?.value ?? DEFAULT_TYPE);

/** @param {Index} index @param {string} name an unknown type runs as the default one */
const typeNamed = (index, name) => index.types.find((type) => type.name === name) ?? index.types.find((type) => type.name === DEFAULT_TYPE);

/**
 * The fields of the object at a place: of the node's type, of the file; none for objects inside them.
 * @param {Known} known @param {Tree | null} root @param {Tree | null} holder
 * @returns {Field[]}
 */
function fieldsAt({ kind, index }, root, holder) {
  if (kind !== "workflow") return holder === root ? (index.files.find((file) => file.kind === kind)?.fields ?? []) : [];
  const inside = nodeHolding(root, holder);
  if (!inside) return holder === root ? (index.files.find((file) => file.kind === "workflow")?.fields ?? [NODES]) : [];
  if (inside.node !== holder) return [];
  return [TYPE, ...fieldsOf(typeNamed(index, typeOf(holder)), index)];
}

/** A type's own fields, then those that every node which calls a model has, then those of every node. @param {NodeType | undefined} type @param {Index} index */
function fieldsOf(type, index) {
  const own = (type?.fields ?? []).filter(({ name }) => name !== "type");
  const known = new Set([...own.map(({ name }) => name), "type"]);
  const common = index.common.filter(({ name, of_models: ofModels }) => !known.has(name) && (!ofModels || type?.calls_model));
  return [...own, ...common.filter((field) => field.of_models), ...common.filter((field) => !field.of_models)];
}

/** @type {Field} */
const TYPE = { name: "type", required: false, kinds: ["string"], enum: null, default: DEFAULT_TYPE, description: "What the node does.", common: false };
/** @type {Field} */
const NODES = { name: "nodes", required: true, kinds: ["array"], enum: null, default: null, description: "The nodes, in the order in which they run.", common: false };

/**
 * @param {string} text
 * @param {number} at offset of the cursor
 * @param {Known} known
 * @returns {{from: number, to: number, choices: Choice[]} | null}
 */
export function completionsAt(text, at, known) {
  const place = placeAt(text, at);
  if (place.role === "none" || !place.holder) return null;
  if (place.role === "key") return keys(text, place, known);
  const open = place.inString ? /\{(\w*)$/.exec(place.typed) : null;
  if (open) return variables(text, at - open[1].length, at, place, known);
  return values(text, place, known);
}

/** @typedef {ReturnType<typeof placeAt>} Place */

/** @param {string} text @param {Place} place @param {Known} known */
function keys(text, place, known) {
  const { holder, member } = place;
  const present = new Set(holder?.members.filter((other) => other !== member).map(({ key }) => key));
  const missing = fieldsAt(known, place.root, holder).filter(({ name }) => !present.has(name));
  const valued = place.from < place.to && (member?.colon || member?.value);
  const choices = missing.map((field, position) => {
    const value = valued ? { text: "", cursor: 0 } : emptyValue(field);
    const name = JSON.stringify(field.name);
    const comma = !valued && wantsComma(text, place.to) ? "," : "";
    const insert = valued ? name : `${name}: ${value.text}${comma}`;
    const cursor = valued ? name.length : name.length + 2 + value.cursor;
    const sort = (field.required ? 0 : field.common ? 2000 : 1000) + position;
    return { label: field.name, detail: detailOf(field), info: field.description, insert, cursor, sort };
  });
  return found(place, choices.sort((a, b) => a.sort - b.sort));
}

/** @param {Field} field */
const detailOf = (field) => [field.required ? "required" : "", field.kinds.join(" or ")].filter(Boolean).join(", ");

/** The value that a key begins with, and where its cursor stands. @param {Field} field */
function emptyValue({ kinds, enum: allowed, default: usual }) {
  const kind = kinds[0];
  if (kind === "boolean") return whole(JSON.stringify(usual !== true));
  if (kind === "array") return { text: "[]", cursor: 1 };
  if (kind === "object") return { text: "{}", cursor: 1 };
  if (kind === "string" || allowed?.some((value) => typeof value === "string")) return { text: '""', cursor: 1 };
  return whole(typeof usual === "number" ? JSON.stringify(usual) : "");
}

/** @param {string} text */
const whole = (text) => ({ text, cursor: text.length });

/** Claims that another member follows without a comma between. @param {string} text @param {number} at */
const wantsComma = (text, at) => /^(?:\s|\/\/[^\n]*|\/\*[^]*?\*\/)*["{[\w-]/.test(text.slice(at));

/** @param {string} text @param {Place} place @param {Known} known */
function values(text, place, known) {
  const [field, options] = valuesFor(place, known);
  if (!options.length) return null;
  const typed = place.inString ? place.typed : text.slice(place.from, place.to);
  const comma = place.from === place.to && wantsComma(text, place.to) ? "," : "";
  const choices = options.map(({ value, info }) => {
    const insert = JSON.stringify(value) + comma;
    const label = typeof value === "string" ? value : JSON.stringify(value);
    const isDefault = field && field.default !== null && field.default === value;
    return { label, detail: isDefault ? "default" : "", info, insert, cursor: insert.length, sort: distance(typed, label) };
  });
  return found(place, choices.sort((a, b) => a.sort - b.sort));
}

/**
 * @param {Place} place @param {Known} known
 * @returns {[Field | undefined, {value: unknown, info: string}[]]}
 */
function valuesFor({ holder, member, root }, known) {
  const branch = branchValues(holder, root, known);
  if (branch) return [undefined, branch];
  if (holder?.kind !== "object" || !member) return [undefined, []];
  const field = fieldsAt(known, root, holder).find(({ name }) => name === member.key);
  const plain = (/** @type {unknown[]} */ list) => list.map((value) => ({ value, info: "" }));
  if (member.key === "type" && nodeHolding(root, holder)?.node === holder)
    return [TYPE, known.index.types.map(({ name, summary }) => ({ value: name, info: summary }))];
  if (NAMED[member.key]) return [field, plain(known.names[NAMED[member.key]] ?? [])];
  if (field?.enum) return [field, plain(field.enum.filter((value) => value !== null))];
  return [field, plain(field?.kinds.includes("boolean") ? [true, false] : [])];
}

/** The branches of a node (`conditionalWorkflows`) name workflows. @param {Tree | null} holder @param {Tree | null} root @param {Known} known */
function branchValues(holder, root, { names }) {
  const inside = nodeHolding(root, holder);
  if (holder?.key !== "conditionalWorkflows" || inside?.node !== holder.parent) return null;
  return (names.workflows ?? []).map((value) => ({ value, info: "" }));
}

/** @param {string} text @param {number} from @param {number} at @param {Place} place @param {Known} known */
function variables(text, from, at, { holder, root }, { index, names, kind }) {
  if (kind !== "workflow") return null;
  const number = nodeHolding(root, holder)?.number ?? 0;
  const outputs = nodesIn(root).slice(0, Math.max(number - 1, 0)).map((node, position) =>
    variable(`agent${position + 1}Output`, `node ${position + 1}`, String(valueAt(node, "title")?.value ?? valueAt(node, "agentName")?.value ?? typeOf(node))));
  const own = (root?.kind === "object" ? root.members : []).filter(({ key, value }) => key !== "nodes" && value?.kind === "value")
    .map(({ key, value }) => variable(key, "this file", String(value?.value)));
  const users = (names.variables ?? []).map((name) => variable(name, "the user's settings", ""));
  const engine = index.variables.filter(({ name }) => name !== "agent1Output").map(({ name, description }) => variable(name, "", description));
  const unique = new Map([...engine, ...users, ...own, ...outputs].map((choice) => [choice.label, choice]));
  const ordered = [...outputs.reverse(), ...own, ...users, ...engine].filter((choice) => unique.get(choice.label) === choice);
  const closed = text[at] === "}";
  const end = closed ? "" : "}";
  const choices = ordered.map((choice, sort) => ({ ...choice, insert: choice.label + end, cursor: choice.label.length + 1, sort }));
  return { from, to: at, choices };
}

/** @param {string} label @param {string} detail @param {string} info */
const variable = (label, detail, info) => ({ label, detail, info, insert: label, cursor: label.length, sort: 0 });

/** @param {Place} place @param {Choice[]} choices */
const found = (place, choices) => (choices.length ? { from: place.from, to: place.to, choices } : null);

/** How far a name is from what is typed: begins with it, holds it, else by letters to change. @param {string} typed @param {string} name */
export function distance(typed, name) {
  const [a, b] = [typed.toLowerCase(), name.toLowerCase()];
  if (b.startsWith(a)) return 0;
  return 1 + (b.includes(a) ? 0 : lettersToChange(a, b));
}

/**
 * What a key, a type or a variable under the cursor is.
 * @param {string} text @param {number} at @param {Known} known
 * @returns {{from: number, to: number, title: string, kind: string, usual: string, description: string, page: string | null} | null}
 */
export function describedAt(text, at, known) {
  const { root, spots } = read(text);
  const spot = spots.find(({ token, role }) => role !== "mark" && token.kind === "string" && token.start <= at && at <= token.end);
  if (!spot) return null;
  const { start: from, end: to } = spot.token;
  const type = typeNamed(known.index, typeOf(nodeHolding(root, spot.holder)?.node ?? null));
  if (spot.role === "value") return typeOrVariable(text, at, spot, known);
  const field = fieldsAt(known, root, spot.holder).find(({ name }) => name === spot.member?.key);
  if (!field) return null;
  const page = known.kind === "workflow" && nodeHolding(root, spot.holder) ? (type?.page ?? null) : null;
  return { from, to, title: field.name, kind: detailOf(field), usual: shown(field.default), description: field.description, page };
}

/** @param {unknown} value */
const shown = (value) => (value === null || value === undefined ? "" : JSON.stringify(value));

/** @param {string} text @param {number} at @param {import("./json_tree.js").Spot} spot @param {Known} known */
function typeOrVariable(text, at, { token, member, holder }, { index }) {
  const { start: from, end: to } = token;
  if (member?.key === "type" && holder?.kind === "object") {
    const type = index.types.find(({ name }) => JSON.stringify(name) === text.slice(from, to));
    return type ? { from, to, title: type.name, kind: "node type", usual: "", description: type.summary, page: type.page } : null;
  }
  for (const match of text.slice(from, to).matchAll(/\{(\w+)\}/g)) {
    const begin = from + match.index;
    const about = index.variables.find(({ name }) => name === match[1]);
    if (about && begin <= at && at <= begin + match[0].length)
      return { from: begin, to: begin + match[0].length, title: match[0], kind: "variable", usual: "", description: about.description, page: null };
  }
  return null;
}
