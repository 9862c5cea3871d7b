// @ts-check
// The search of Help, word by word: names first, then descriptions, then the texts of pages. Pure.
import { fitting, lacking, soughtWords } from "../shared/names.js";
import { listed } from "../shared/words.js";
import { inline, plain } from "./markdown.js";

/**
 * @typedef {{ name: string, where: string, text: string, page: string, at: string }} Entry what can be found; `page`,
 *   `at`: where it leads; `at` may have the id of a heading
 *   before it, as `endpoint#apiKey`
 */

const MOST = 60;
/**
 * The pages of the fields of config files, where it is not the reference of the configuration, with the id of the
 * heading above them. @type {Record<string, [string, string?]>}
 */
const FIELDS = {
  memorysettings: ["memory"],
  compactorsettings: ["memory", "the-context-compactor"],
  mcptool: ["frontends/mcp"],
};

/** Everything in the index that has a name. A rule's key is told where its file is.
 * @param {any} index the answer of `help` @returns {Entry[]} */
export function entries(index) {
  /** @type {Entry[]} */
  const made = [];
  const fields = new Set(
    [index.common, ...index.files.map((/** @type {any} */ file) => file.fields)].flat().map(({ name }) => name),
  );
  const add = (
    /** @type {string} */ name,
    /** @type {string} */ where,
    /** @type {string} */ text,
    /** @type {string | null} */ page,
    at = "",
  ) => made.push({ name, where, text: plain(inline(text)), page: page ?? "", at });
  for (const field of index.common)
    add(field.name, about("field of every node", field), field.description, field.page, field.name);
  for (const type of index.types) {
    add(type.name, "node type", type.summary, type.page);
    for (const field of type.fields)
      if (!field.common)
        add(field.name, about(`field of ${type.name}`, field), field.description, type.page, field.name);
  }
  for (const one of index.variables) add(`{${one.name}}`, "variable", one.description, "variables", one.name);
  for (const rule of index.rules) {
    add(rule.name, "cleaning rule", rule.summary, rule.page);
    for (const key of rule.keys)
      if (!fields.has(key.name))
        add(key.name, about(`key of the rule ${rule.name}`, key), key.description, rule.page, key.name);
  }
  for (const { kind, title, fields } of index.files) {
    const [page, under] = FIELDS[kind] ?? ["configuration", title.toLowerCase().replaceAll(" ", "-")];
    for (const field of fields)
      add(
        field.name,
        about(`field of ${article(title)} file`, field),
        field.description,
        page,
        under ? `${under}#${field.name}` : field.name,
      );
  }
  for (const page of index.pages) add(page.title, "page", "", page.name);
  return made;
}

/** JSON's words for what a value is, in plain ones. @type {Record<string, string>} */
const KINDS = { string: "text", boolean: "true/false", integer: "whole number", array: "list" };

/** @typedef {{kinds: string[], enum: unknown[] | null, default: unknown}} Stated of a field */

/** What may stand there, in words. @param {Stated} field */
export const kindsOf = ({ kinds, enum: words }) =>
  (words ?? kinds.map((kind) => KINDS[kind] ?? kind)).join(" or ").replace("whole number or number", "number");

/** Whose it is, what may stand there, and what holds without it.
 * @param {string} whose @param {Stated} field */
const about = (whose, field) =>
  listed(whose, kindsOf(field), field.default !== null && `default ${JSON.stringify(field.default)}`);

/** `an endpoint`, `an API type`, `a user`. @param {string} title */
const article = (title) =>
  `${/^(?:[aeio]|MCP)/i.test(title) ? "an" : "a"} ${title.replace(/^[A-Z](?=[a-z])/, (first) => first.toLowerCase())}`;

/** The best of what fits, best first; a page only where nothing else leads to it.
 * @param {Entry[]} all @param {string} words @param {Map<string, string>} texts page -> its text, a line
 * for each block @returns {Entry[]} */
export function found(all, words, texts) {
  const wanted = soughtWords(words);
  const lineOf = (/** @type {Entry} */ { name, page }) =>
    lacking(wanted, name) ? texts.get(page)?.split("\n").find((line) => !lacking(wanted, line)) ?? "" : "";
  const told = all.map((entry) => (entry.where === "page" ? { ...entry, text: lineOf(entry) } : entry));
  return fitting(told, words, ({ name, text }) => [name, text])
    .filter(
      ({ where, page }, _, all) => where !== "page" || !all.some((one) => one.page === page && one.where !== "page"),
    )
    .slice(0, MOST)
    .map((entry) => (entry.where === "page" ? { ...entry, ...around(entry.text, wanted) } : entry));
}

/** The words around the first place of a line that has what is looked for, and what leads to it.
 * @param {string} line @param {string[]} wanted */
function around(line, wanted) {
  const at = Math.max(0, line.search(new RegExp(wanted.join("|"), "i")));
  const from = Math.max(0, line.lastIndexOf(" ", at - 40));
  const to = at + 75;
  return {
    text: `${from ? "... " : ""}${line.slice(from, to).trim()}${to < line.length ? " ..." : ""}`,
    at: line.slice(at, to).split(", ")[0],
  };
}

/** Where a link in a page of the docs leads: a page of the index, an outside address, or nowhere.
 * @param {string} to @param {string} from the page that holds it @param {Set<string>} pages
 * @returns {{ page: string, at: string } | { outside: string } | null} */
export function target(to, from, pages) {
  if (/^[a-z][a-z0-9+.-]*:/i.test(to)) return /^(https?|mailto):/i.test(to) ? { outside: to } : null;
  const [path, at = ""] = to.split("#", 2);
  if (!path) return { page: from, at };
  const parts = from.split("/").slice(0, -1);
  for (const part of path.split("/")) {
    if (part === ".." && !parts.length) return null;
    if (part === "..") parts.pop();
    else if (part && part !== ".") parts.push(part);
  }
  const name = parts.join("/").replace(/\.md$/, "");
  const page = [name, [...parts, "README"].join("/")].find((one) => pages.has(one));
  return page === undefined ? null : { page, at };
}
