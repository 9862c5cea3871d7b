// @ts-check
// The nodes of a workflow as a list: what comes in, moves and goes as edits of the text, each one step of undo. The
// numbers that follow are told by the server, which is handed in. Pure but for that. Source: spec workbench.md 2.
import { fieldsOf, typeNamed } from "./completion.js";
import { firstValue, labelOf } from "./form_model.js";
import {
  applied,
  hasLines,
  indentAt,
  insertItem,
  memberOf,
  moveItem,
  quoted,
  removeMember,
  setField,
} from "./json_edit.js";
import { nodesIn, read, valueAt } from "./json_tree.js";

/**
 * @typedef {import("./json_tree.js").Tree} Tree
 * @typedef {import("./json_edit.js").Change} Change
 * @typedef {import("./completion.js").Known} Known
 * @typedef {{insert: number} | {remove: number} | {move: [number, number]}} ListChange numbers from 1
 * @typedef {{steps: Change[][], lost: string[], n: number}} Edit `lost`: what is told before; `n`: the node chosen then
 */

/** A secret that the page was not shown. */
const MASK = "***";

/** The list of nodes of a text; null where there is none. @param {string} text @returns {Tree | null} */
export function listIn(text) {
  const { root } = read(text);
  const list = root?.kind === "array" ? root : valueAt(root, "nodes");
  return list?.kind === "array" ? list : null;
}

/** @param {string} text @param {number} n @returns {Tree | undefined} */
export const nodeIn = (text, n) => nodesIn(read(text).root)[n - 1];

/** What a node is written as. @param {string} text @param {number} n */
export function nodeText(text, n) {
  const node = nodeIn(text, n);
  return node ? text.slice(node.start, node.end) : "";
}

/**
 * @typedef {{text: () => string, user: string,
 *   renumber: (body: object) => Promise<{changes: [number, number, string][], lost: string[]}>}} Doc
 *   `text`: as it is now; `renumber`: asks the server
 * @typedef {Promise<{steps: Change[][], lost: string[]}>} Promised
 */

/** Edits behind each other, and the text as they leave it. @param {string} text */
function seriesOn(text) {
  const made = {
    text,
    steps: /** @type {Change[][]} */ ([]),
    step(/** @type {Change[]} */ changes) {
      made.steps.push(changes);
      made.text = applied(made.text, changes);
    },
  };
  return made;
}

/** @typedef {(text: string, list: Tree) => Change[]} Make an edit of the text as it is by then */

/**
 * The edit with the numbers that follow it. Asked again where the text changed meanwhile.
 * @param {Doc} doc
 * @param {ListChange} change asked once for each of `makes`
 * @param {Make[]} makes behind each other; first of all the numbers are as they will be
 * @param {Make} [hold] behind each asking: holds the place for what comes in
 * @returns {Promised}
 */
async function renumbered(doc, change, makes, hold) {
  for (;;) {
    const text = doc.text();
    const lost = new Set();
    const made = seriesOn(text);
    const edit = (/** @type {Make | undefined} */ make) => {
      const list = listIn(made.text);
      if (list && make) made.step(make(made.text, list));
    };
    for (const _ of makes) {
      const told = await doc.renumber({ text: made.text, ...change, ...(doc.user ? { user: doc.user } : {}) });
      made.step(told.changes.map(([from, to, insert]) => ({ from, to, insert })));
      edit(hold);
      told.lost.forEach((one) => lost.add(one));
    }
    if (doc.text() !== text) continue;
    makes.forEach(edit);
    return { steps: made.steps, lost: [...lost] };
  }
}

/** @typedef {(text: string, list: Tree) => string} Write a node as it is written among the others */

/** @param {Doc} doc @param {number} n @param {Write} write @returns {Promised} */
export const insertion = (doc, n, write) =>
  renumbered(doc, { insert: n }, [(text, list) => insertInto(text, list, n - 1, write(text, list))]);

/**
 * Several nodes, one behind the other, in a list that has some. What they name themselves stays as it is: they come
 * in once all numbers are right.
 * @param {Doc} doc @param {number} n @param {Write[]} writes @returns {Promised}
 */
export const insertions = (doc, n, writes) =>
  renumbered(
    doc,
    { insert: n },
    writes.map((write, at) => (text, list) => {
      const { start, end } = /** @type {Tree} */ (list.members[n - 1 + at].value);
      return [{ from: start, to: end, insert: write(text, list) }];
    }),
    (text, list) => insertItem(text, list, n - 1, "{}"),
  );

/** @param {string} text @param {Tree} list @param {number} place @param {string} written */
function insertInto(text, list, place, written) {
  if (list.members.length || !written.includes("\n")) return insertItem(text, list, place, written);
  const indent = indentAt(text, list.start);
  return [{ from: list.start + 1, to: list.end - 1, insert: `\n${indent}  ${written}\n${indent}` }];
}

/** @param {Doc} doc @param {number} n @returns {Promised} */
export const removal = (doc, n) =>
  renumbered(doc, { remove: n }, [
    (text, list) => removeMember(text, list, list.members[n - 1], { comments: true }),
  ]);

/** @param {Doc} doc @param {number} from @param {number} to @param {string} [group] within which it comes; empty: it
 * leaves its own; none: that stays as it is @returns {Promised} */
export async function moving(doc, from, to, group) {
  const { steps, lost } = await renumbered(doc, { move: [from, to] }, [
    (text, list) => moveItem(text, list, from - 1, to - 1),
  ]);
  const grouped = group === undefined ? [] : inGroup(steps.reduce(applied, doc.text()), to, group);
  return { steps: [...steps, grouped], lost };
}

/** @param {string} text @param {number} n @param {string} group empty: none @returns {Change[]} */
function inGroup(text, n, group) {
  const node = nodeIn(text, n);
  if (!node) return [];
  if (group) return setField(text, node, "parallelGroup", quoted(group));
  const member = memberOf(node, "parallelGroup");
  return member ? removeMember(text, node, member) : [];
}

/**
 * A node of a type, as it is written among the others: its required fields, the endpoint and preset that the file uses
 * most, and a title that is new in it.
 * @param {string} text @param {Tree} list @param {string} type @param {Known} known @param {string} [group]
 */
export function newNode(text, list, type, known, group) {
  const about = typeNamed(known.index, type);
  const fields = fieldsOf(about, known.index);
  /** @type {[string, string][]} */
  const written = [
    ["title", quoted(newTitle(list, labelOf(type)))],
    ["type", quoted(type)],
  ];
  for (const field of fields) {
    const isEndpoint = field.form === "names:endpoints" && field.group === "model";
    const isPreset = field.form === "names:presets" && field.group === "model";
    if (isEndpoint && (field.required || about?.calls_model))
      written.push([field.name, quoted(mostUsed(list, field.name) ?? known.names.endpoints?.[0] ?? "")]);
    else if (isPreset && about?.calls_model) {
      const preset = mostUsed(list, field.name);
      if (preset) written.push([field.name, quoted(preset)]);
    } else if (field.required) written.push([field.name, firstValue({ ...field, default: null })]);
  }
  if (group) written.push(["parallelGroup", quoted(group)]);
  return laidOut(text, list, written);
}

/** The value that most nodes have. @param {Tree} list @param {string} key @returns {string | null} */
function mostUsed(list, key) {
  const values = list.members.flatMap(({ value }) => {
    const found = valueAt(value, key)?.value;
    return typeof found === "string" && found ? [found] : [];
  });
  return byCount(values)[0] ?? null;
}

/** Each once, the most frequent first. @param {string[]} values */
export function byCount(values) {
  const count = (/** @type {string} */ one) => values.filter((value) => value === one).length;
  return [...new Set(values)].sort((a, b) => count(b) - count(a));
}

/** `Title`, `Title 2` ... @param {Tree} list @param {string} wanted */
function newTitle(list, wanted) {
  const titles = new Set(list.members.map(({ value }) => valueAt(value, "title")?.value));
  let title = wanted;
  for (let at = 2; titles.has(title); at++) title = `${wanted} ${at}`;
  return title;
}

/** On one line where the others are. @param {string} text @param {Tree} list @param {[string, string][]} written */
function laidOut(text, list, written) {
  const members = written.map(([key, value]) => `${quoted(key)}: ${value}`);
  const example = list.members.find(({ value }) => value?.members.length)?.value;
  if (example && !hasLines(text, example)) return `{${members.join(", ")}}`;
  const outer = example ? indentAt(text, example.start) : `${indentAt(text, list.start)}  `;
  const inner = example ? indentAt(text, example.members[0].start) : `${outer}  `;
  return `{\n${inner}${members.join(`,\n${inner}`)}\n${outer}}`;
}

/**
 * The nodes of a text that was copied, as they are to be written here; null for a text that is none.
 * @param {string} pasted
 * @returns {{nodes: string[], masked: boolean} | null} `masked`: a secret was left empty
 */
export function nodesPasted(pasted) {
  const { root } = read(pasted);
  const trees = listIn(pasted) ? nodesIn(root) : root ? [root] : [];
  if (!trees.length || trees.some(({ kind, members }) => kind !== "object" || !members.length)) return null;
  let masked = false;
  const nodes = trees.map(({ start, end }) => {
    const node = pasted.slice(start, end);
    const shown = node.replace(/"(?:[^"\\\n]|\\.)*"/g, (word) => (word === quoted(MASK) ? '""' : word));
    masked ||= shown !== node;
    return shown;
  });
  return { nodes, masked };
}

/** Lines of a node as deep as those of this list. @param {string} node @param {string} text @param {Tree} list */
export function indented(node, text, list) {
  const [first, ...lines] = node.split("\n");
  const last = /^[ \t]*/.exec(lines.at(-1) ?? "")?.[0] ?? "";
  const example = list.members[0];
  const indent = example ? indentAt(text, example.start) : `${indentAt(text, list.start)}  `;
  const moved = lines.map((line) => (line.startsWith(last) ? indent + line.slice(last.length) : line));
  return [first, ...moved].join("\n");
}

/** A node with a title that is new in the list. @param {string} node @param {Tree} list */
export function retitled(node, list) {
  const { root } = read(node);
  const title = valueAt(root, "title")?.value;
  if (!root || typeof title !== "string") return node;
  return applied(node, setField(node, root, "title", quoted(newTitle(list, title.replace(/ \d+$/, "")))));
}

/** The flags of all nodes, so that this one answers. @param {string} text @param {number} n @returns {Change[][]} */
export function answering(text, n) {
  const made = seriesOn(text);
  for (let at = 1; at <= nodesIn(read(text).root).length; at++)
    for (const key of ["is_responder", "returnToUser"]) {
      const node = nodeIn(made.text, at);
      const member = node && memberOf(node, key);
      if (node && member && !(at === n && key === "returnToUser")) made.step(removeMember(made.text, node, member));
    }
  const node = nodeIn(made.text, n);
  if (node) made.step(setField(made.text, node, "returnToUser", "true"));
  return made.steps;
}

/** The same group for a node and the one before it. @param {string} text @param {number} n @returns {Change[][]} */
export function beside(text, n) {
  const before = nodeIn(text, n - 1);
  const there = before && valueAt(before, "parallelGroup")?.value;
  const group = typeof there === "string" && there ? there : "together";
  const first = inGroup(text, n - 1, group);
  return [first, inGroup(applied(text, first), n, group)];
}

/** @typedef {import("./completion.js").NodeType} NodeType */

/** Where kinds of nodes are offered. */
const GROUPS = [
  ["model", "Ask a model"],
  ["text", "Text and logic"],
  ["workflows", "Other workflows"],
  ["memory", "Memory"],
  ["tools", "Tools"],
  ["files", "Files"],
];
const MOST = 6;

/** @param {NodeType[]} types @param {string[]} most */
export function groupsOf(types, most) {
  const used = most.slice(0, MOST).flatMap((name) => types.find((type) => type.name === name) ?? []);
  const groups = GROUPS.map(([name, title]) => ({ title, items: types.filter(({ group }) => group === name) }));
  return [{ title: "Used most here", items: used }, ...groups];
}
