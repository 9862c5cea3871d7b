// @ts-check
// The search of Help: names first, then descriptions, then the texts of pages. Pure.
import { lettersToChange } from "../shared/names.js";
import { listed } from "../shared/words.js";

/**
 * @typedef {{ name: string, where: string, text: string, page: string, at: string }} Entry what can be found; `page`,
 *   `at`: where it leads
 */

const MOST = 60;
/**
 * The pages of the fields of config files, where it is not the reference of the configuration. @type {Record<string,
 * string>}
 */
const FIELDS = { memorysettings: "memory", compactorsettings: "memory", mcptool: "frontends/mcp" };

/** Everything in the index that has a name.
 * @param {any} index the answer of `help` @returns {Entry[]} */
export function entries(index) {
  /** @type {Entry[]} */
  const made = [];
  const add = (
    /** @type {string} */ name,
    /** @type {string} */ where,
    /** @type {string} */ text,
    /** @type {string | null} */ page,
    at = "",
  ) => made.push({ name, where, text: unmarked(text), page: page ?? "", at });
  for (const type of index.types) {
    add(type.name, "node type", type.summary, type.page);
    for (const field of type.fields)
      if (!field.common)
        add(field.name, about(`field of ${type.name}`, field), field.description, type.page, field.name);
  }
  for (const field of index.common)
    add(field.name, about("field of every node", field), field.description, field.page, field.name);
  for (const one of index.variables) add(`{${one.name}}`, "variable", one.description, "variables", one.name);
  for (const rule of index.rules) {
    add(rule.name, "cleaning rule", rule.summary, rule.page);
    for (const key of rule.keys)
      add(key.name, about(`key of the rule ${rule.name}`, key), key.description, rule.page, key.name);
  }
  for (const file of index.files)
    for (const field of file.fields)
      add(
        field.name,
        about(`field of ${article(file.title)} file`, field),
        field.description,
        FIELDS[file.kind] ?? "configuration",
        field.name,
      );
  for (const page of index.pages) add(page.title, "page", "", page.name);
  return made;
}

/** Whose it is, what may stand there, and what holds without it.
 * @param {string} whose @param {{kinds: string[], enum: unknown[] | null, default: unknown}} field */
const about = (whose, { kinds, enum: words, default: usual }) =>
  listed(
    whose,
    (words ?? kinds).join(" or ").replace("integer or number", "number"),
    usual !== null && `default ${JSON.stringify(usual)}`,
  );

/** Without marks of Markdown. @param {string} text */
const unmarked = (text) => text.replace(/[`*]/g, "");

/** `an endpoint`, `an API type`. @param {string} title */
const article = (title) =>
  `${/^[aeiou]/i.test(title) ? "an" : "a"} ${title.replace(/^[A-Z](?=[a-z])/, (first) => first.toLowerCase())}`;

/** The best of what fits, best first.
 * @param {Entry[]} all @param {string} words @param {Map<string, string>} texts page -> its text @returns {Entry[]} */
export function found(all, words, texts) {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return [];
  const best = all
    .map((entry) => ({ entry, rank: rankOf(entry, wanted) }))
    .filter(({ rank }) => rank !== null)
    .sort((one, other) => Number(one.rank) - Number(other.rank))
    .slice(0, MOST)
    .map(({ entry }) => entry);
  for (const entry of all) {
    if (best.length >= MOST) break;
    const text =
      entry.where === "page" && !best.includes(entry) && around(unmarked(texts.get(entry.page) ?? ""), wanted);
    if (text) best.push({ ...entry, text });
  }
  return best;
}

/** Small is good; null: it does not fit. @param {Entry} entry @param {string} wanted */
function rankOf(entry, wanted) {
  const name = entry.name.toLowerCase().replace(/^\{/, "");
  const bare = wanted.replace(/^\{/, "");
  if (name === bare || name === `${bare}}`) return 0;
  if (name.startsWith(bare)) return 1;
  if (name.includes(bare)) return 2;
  if (bare.length > 3 && lettersToChange(name, bare) <= 2) return 3;
  return entry.text.toLowerCase().includes(wanted) ? 4 : null;
}

/**
 * The words around the first place of a text; empty where it does not hold them.
 * @param {string} text
 * @param {string} wanted
 */
function around(text, wanted) {
  const at = text.toLowerCase().indexOf(wanted);
  if (at < 0) return "";
  const from = Math.max(0, text.lastIndexOf(" ", Math.max(0, at - 40)));
  return `${from ? "... " : ""}${text
    .slice(from, at + wanted.length + 60)
    .replace(/\s+/g, " ")
    .trim()} ...`;
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
