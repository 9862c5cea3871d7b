// @ts-check
// What may be written at a place of a config file, and what stands there: from the index of Help and the names
// that exist for the user. Pure. Source: spec console.md 9.5.
import { lettersToChange } from "../shared/names.js";
import { nodeHolding, nodesIn, placeAt, read, valueAt } from "./json_tree.js";
import { listed } from "../shared/words.js";

/**
 * @typedef {import("./json_tree.js").Tree} Tree
 * @typedef {{name: string, required: boolean, kinds: string[], enum: unknown[] | null, default: unknown, description:
 *   string, common: boolean, of_models?: boolean, group: string, form: string, fills: boolean, of?: string,
 *   page?: string}} Field `form`: how a value is written; `of`: what the values of a map are; `page`: of Help, where
 *   every node has it
 * @typedef {{name: string, summary: string, page: string, calls_model: boolean, group: string, fields: Field[]}}
 *   NodeType
 * @typedef {{types: NodeType[], common: Field[], variables: {name: string, description: string, example?: string}[],
 *   files: {kind: string, fields: Field[]}[]}} Index
 * @typedef {{endpoints?: string[], presets?: string[], workflows?: string[], structured_outputs?: string[],
 *   prompt_templates?: string[], mcp_servers?: string[], api_types?: string[], variables?: string[],
 *   types?: string[]}} Names `types`: of nodes, those that the user has most of first
 * @typedef {{kind: string, index: Index, names: Names, again?: () => void}} Known `kind`: `workflow`, or a kind of file
 *   of the index (`endpoint`); `again`: asks for the names that exist now
 * @typedef {{label: string, detail: string, info: string, insert: string, cursor: number}} Choice `cursor`: in `insert`
 */

const DEFAULT_TYPE = "Standard";
/** @param {Tree | null} node @returns {string} the type a node runs as */
export const typeOf = (node) => String(valueAt(node, "type")?.value ?? DEFAULT_TYPE);

/** @param {Index} index @param {string} name an unknown type runs as the default one */
export const typeNamed = (index, name) =>
  index.types.find((type) => type.name === name) ?? index.types.find((type) => type.name === DEFAULT_TYPE);

/**
 * The fields of the object at a place: of the node's type, of the file; none for objects inside them.
 * @param {Known} known @param {Tree | null} root @param {Tree | null} holder
 * @returns {Field[]}
 */
function fieldsAt({ kind, index }, root, holder) {
  const inside = kind === "workflow" ? nodeHolding(root, holder) : null;
  if (inside) return inside.node === holder ? fieldsOf(typeNamed(index, typeOf(holder)), index) : [];
  if (holder !== root) return [];
  return kind === "workflow" ? [NODES] : (index.files.find((file) => file.kind === kind)?.fields ?? []);
}

/**
 * The type itself, its own fields, then those that every node which calls a model has, then those of every node.
 * @param {NodeType | undefined} type
 * @param {Index} index
 */
export function fieldsOf(type, index) {
  const own = [TYPE, ...(type?.fields ?? [])];
  const common = index.common.filter(
    ({ name, of_models: ofModels }) => (!ofModels || type?.calls_model) && !own.some((field) => field.name === name),
  );
  return [...own, ...common.filter((field) => field.of_models), ...common.filter((field) => !field.of_models)];
}

/** @type {Field} */
const TYPE = {
  name: "type",
  required: false,
  kinds: ["string"],
  enum: null,
  default: DEFAULT_TYPE,
  description: "What the node does.",
  common: false,
  group: "what",
  form: "choice",
  fills: false,
};
/** @type {Field} */
const NODES = {
  name: "nodes",
  required: true,
  kinds: ["array"],
  enum: null,
  default: null,
  description: "The nodes, in the order in which they run.",
  common: false,
  group: "own",
  form: "json",
  fills: false,
};

/**
 * @param {string} text
 * @param {number} at offset of the cursor
 * @param {Known} known
 * @returns {{from: number, to: number, typed: string, choices: Choice[]} | null} `typed`: what stands before the cursor
 */
export function completionsAt(text, at, known) {
  const place = placeAt(text, at);
  if (!place?.holder) return null;
  const open = place.role === "value" && place.inString ? /\{(\w*)$/.exec(place.typed) : null;
  if (open)
    return known.kind === "workflow"
      ? { from: at - open[1].length, to: at, typed: open[1], choices: variables(text[at] === "}", place, known) }
      : null;
  const choices = place.role === "key" ? keys(text, place, known) : values(text, place, known);
  return choices.length ? { from: place.from, to: place.to, typed: place.typed, choices } : null;
}

/** @typedef {NonNullable<ReturnType<typeof placeAt>>} Place */

/** @param {string} text @param {Place} place @param {Known} known @returns {Choice[]} */
function keys(text, { root, holder, member, from, to }, known) {
  const present = new Set(holder?.members.filter((other) => other !== member).map(({ key }) => key));
  const missing = fieldsAt(known, root, holder).filter(({ name }) => !present.has(name));
  const valued = from < to && (member?.colon || member?.value);
  const rank = (/** @type {Field} */ { required, common }) => (required ? 0 : common ? 2 : 1);
  return missing
    .sort((a, b) => rank(a) - rank(b))
    .map((field) => {
      const name = JSON.stringify(field.name);
      const value = emptyValue(field);
      const inside = /^["{[]/.test(value) ? 1 : value.length;
      const written = valued
        ? { insert: name, cursor: name.length }
        : { insert: `${name}: ${value}${commaBehind(text, to)}`, cursor: name.length + 2 + inside };
      return { label: field.name, detail: detailOf(field), info: field.description, ...written };
    });
}

/** @param {Field} field */
const detailOf = (field) => listed(field.required && "required", field.kinds.join(" or "));

/** The value that a key begins with. @param {Field} field */
function emptyValue({ kinds: [kind], enum: allowed, default: usual }) {
  if (kind === "boolean") return String(usual !== true);
  if (kind === "array") return "[]";
  if (kind === "object") return "{}";
  if (kind === "string" || allowed?.some((value) => typeof value === "string")) return '""';
  return typeof usual === "number" ? String(usual) : "";
}

/** A comma, where another member follows without one between. @param {string} text @param {number} at */
const commaBehind = (text, at) => (/^(?:\s|\/\/[^\n]*|\/\*[^]*?\*\/)*["{[\w-]/.test(text.slice(at)) ? "," : "");

/** @param {string} text @param {Place} place @param {Known} known @returns {Choice[]} */
function values(text, place, known) {
  const comma = place.from === place.to ? commaBehind(text, place.to) : "";
  const { usual, options } = valuesFor(place, known);
  const choices = options.map(({ value, info }) => {
    const insert = JSON.stringify(value) + comma;
    return { label: String(value), detail: value === usual ? "default" : "", info, insert, cursor: insert.length };
  });
  return choices.sort((a, b) => distance(place.typed, a.label) - distance(place.typed, b.label));
}

/**
 * @param {Place} place @param {Known} known
 * @returns {{usual?: unknown, options: {value: unknown, info: string}[]}} `usual`: the default
 */
function valuesFor({ holder, member, root }, known) {
  if (holder?.kind !== "object" || !member) return { options: [] };
  const { index, names } = known;
  const node = nodeHolding(root, holder)?.node;
  if (node === holder && member.key === "type")
    return { usual: DEFAULT_TYPE, options: index.types.map(({ name, summary }) => ({ value: name, info: summary })) };
  const field = fieldsAt(known, root, holder).find(({ name }) => name === member.key);
  const named = namedBy(known, root, holder, field);
  const list = named
    ? (names[named] ?? [])
    : (field?.enum?.filter((value) => value !== null) ?? (field?.kinds.includes("boolean") ? [true, false] : []));
  return { usual: field?.default, options: list.map((value) => ({ value, info: "" })) };
}

/**
 * What a value names: that of the field, or one of a map's.
 * @param {Known} known @param {Tree | null} root @param {Tree} holder @param {Field | undefined} field
 */
function namedBy(known, root, holder, field) {
  const map = field ? null : fieldsAt(known, root, holder.parent).find(({ name }) => name === holder.key);
  return namesOf(field?.form ?? map?.of ?? "");
}

/** The list of names of a form `names:presets`; null for others. @param {string} form */
export const namesOf = (form) =>
  form.startsWith("names:") ? /** @type {keyof Names} */ (form.slice("names:".length)) : null;

/**
 * Those that stand nearest first.
 * @param {boolean} closed a brace follows
 * @param {Place} place
 * @param {Known} known
 * @returns {Choice[]}
 */
export function variables(closed, { holder, root }, { index, names }) {
  const number = nodeHolding(root, holder)?.number ?? 1;
  const outputs = nodesIn(root)
    .slice(0, number - 1)
    .map((node, at) => [
      `agent${at + 1}Output`,
      `node ${at + 1}`,
      String(valueAt(node, "title")?.value ?? valueAt(node, "agentName")?.value ?? typeOf(node)),
    ]);
  const own =
    root?.kind === "object" ? root.members.filter(({ key, value }) => key !== "nodes" && value?.kind === "value") : [];
  const all = [
    ...outputs.reverse(),
    ...own.map(({ key, value }) => [key, "this file", String(value?.value)]),
    ...(names.variables ?? []).map((name) => [name, "the user's settings", ""]),
    ...index.variables
      .filter(({ name }) => name !== "agent1Output")
      .map(({ name, description }) => [name, "", description]),
  ];
  const first = new Map(all.toReversed().map((one) => [one[0], one]));
  return all
    .filter((one) => first.get(one[0]) === one)
    .map(([label, detail, info]) => ({
      label,
      detail,
      info,
      insert: closed ? label : `${label}}`,
      cursor: label.length + 1,
    }));
}

/**
 * How far a name is from what is typed: begins with it, holds it, else by letters to change.
 * @param {string} typed
 * @param {string} name
 */
export function distance(typed, name) {
  const [a, b] = [typed.toLowerCase(), name.toLowerCase()];
  if (b.startsWith(a)) return 0;
  return 1 + (b.includes(a) ? 0 : lettersToChange(a, b));
}

/**
 * What a key, a type or a variable under the cursor is.
 * @param {string} text @param {number} at @param {Known} known
 * @returns {{from: number, to: number, title: string, kind: string, usual: string, description: string, page: string |
 *   null} | null}
 */
export function describedAt(text, at, known) {
  const { root, spots } = read(text);
  const spot = spots.find(({ token: { kind, start, end } }) => kind === "string" && start <= at && at <= end);
  if (!spot) return null;
  const {
    role,
    holder,
    member,
    token: { start: from, end: to },
  } = spot;
  if (role === "value") return typeOrVariable(text, at, spot, known);
  const field = fieldsAt(known, root, holder).find(({ name }) => name === member?.key);
  if (!field) return null;
  const node = known.kind === "workflow" ? nodeHolding(root, holder)?.node : null;
  const page = node ? (typeNamed(known.index, typeOf(node))?.page ?? null) : null;
  return {
    from,
    to,
    title: field.name,
    kind: detailOf(field),
    usual: field.default === null ? "" : JSON.stringify(field.default),
    description: field.description,
    page,
  };
}

/** @param {string} text @param {number} at @param {import("./json_tree.js").Spot} spot @param {Known} known */
function typeOrVariable(text, at, { token: { start: from, end: to }, member, holder }, { index }) {
  if (member?.key === "type" && holder?.kind === "object") {
    const type = index.types.find(({ name }) => JSON.stringify(name) === text.slice(from, to));
    return type
      ? { from, to, title: type.name, kind: "node type", usual: "", description: type.summary, page: type.page }
      : null;
  }
  for (const { 0: title, 1: name, index: place } of text.slice(from, to).matchAll(/\{(\w+)\}/g)) {
    const about = index.variables.find((one) => one.name === name);
    const begin = from + place;
    const end = begin + title.length;
    if (about && begin <= at && at <= end)
      return { from: begin, to: end, title, kind: "variable", usual: "", description: about.description, page: null };
  }
  return null;
}
