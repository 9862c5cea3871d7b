// @ts-check
// The search of Help: names first, then descriptions, then the texts of pages. Pure.

/** @typedef {{ name: string, where: string, text: string, page: string, at: string }} Entry what can be found; `page`, `at`: where it leads */

/** Everything in the index that has a name.
 * @param {any} index the answer of `help` @returns {Entry[]} */
export function entries(index) {
  /** @type {Entry[]} */
  const made = [];
  const add = (/** @type {string} */ name, /** @type {string} */ where, /** @type {string} */ text, /** @type {string} */ page, at = "") => made.push({ name, where, text: unmarked(text ?? ""), page: page ?? "", at });
  for (const type of index.types) {
    add(type.name, "node type", type.summary, type.page);
    for (const field of type.fields) if (!field.common) add(field.name, `field of ${type.name}`, field.description, type.page, field.name);
  }
  for (const field of index.common) add(field.name, "field of every node", field.description, "nodes/README", field.name);
  for (const one of index.variables) add(`{${one.name}}`, "variable", one.description, "variables", one.name);
  for (const rule of index.rules) {
    add(rule.name, "cleaning rule", rule.summary, rule.page);
    for (const key of rule.keys) add(keyName(key), `key of the rule ${rule.name}`, rule.summary, rule.page, keyName(key));
  }
  for (const file of index.files) for (const field of file.fields) add(field.name, `field of ${article(KINDS[file.kind] ?? file.kind)} file`, field.description, "configuration", field.name);
  for (const page of index.pages) add(page.title, "page", "", page.name);
  return made;
}

/** @type {Record<string, string>} */
const KINDS = { apitype: "API type", prompttemplate: "prompt template", mcpserver: "MCP server", memorysettings: "memory settings", compactorsettings: "compactor settings" };

/** Without marks of Markdown. @param {string} text */
const unmarked = (text) => text.replace(/[`*]/g, "");

/** @param {string} kind */
const article = (kind) => `${/^[aeiou]/i.test(kind) ? "an" : "a"} ${kind}`;
/** @param {any} key a name, or a value that has one @returns {string} */
const keyName = (key) => (typeof key === "string" ? key : key.name);

/** The best of what fits, best first.
 * @param {Entry[]} all @param {string} words @param {Map<string, string>} texts page -> its text @param {number} [most] @returns {Entry[]} */
export function found(all, words, texts, most = 60) {
  const wanted = fold(words).trim();
  if (!wanted) return [];
  const ranked = [];
  for (const [place, entry] of all.entries()) {
    const rank = rankOf(entry, wanted);
    if (rank !== null) ranked.push({ rank, place, entry });
  }
  ranked.sort((one, two) => one.rank - two.rank || one.place - two.place);
  const best = ranked.slice(0, most).map((one) => one.entry);
  for (const entry of all) {
    if (best.length >= most) break;
    if (entry.where === "page" && !best.includes(entry) && fold(texts.get(entry.page) ?? "").includes(wanted)) best.push({ ...entry, text: around(unmarked(texts.get(entry.page) ?? ""), wanted) });
  }
  return best;
}

/** Small is good; null: it does not fit. @param {Entry} entry @param {string} wanted */
function rankOf(entry, wanted) {
  const name = fold(entry.name).replace(/^\{/, "");
  const bare = wanted.replace(/^\{/, "");
  if (name === bare || name === `${bare}}`) return 0;
  if (name.startsWith(bare)) return 1;
  if (name.includes(bare)) return 2;
  if (bare.length > 3 && distance(name, bare, 2) <= 2) return 3;
  return fold(entry.text).includes(wanted) ? 4 : null;
}

/** @param {string} text */
const fold = (text) => text.toLowerCase();

/** The words around the first place of a text. @param {string} text @param {string} wanted */
function around(text, wanted) {
  const at = fold(text).indexOf(wanted);
  if (at < 0) return "";
  const from = Math.max(0, text.lastIndexOf(" ", Math.max(0, at - 40)));
  return `${from ? "... " : ""}${text.slice(from, at + wanted.length + 60).replace(/\s+/g, " ").trim()} ...`;
}

/** How many letters must change, more than `most` is `most + 1`.
 * @param {string} one @param {string} two @param {number} most */
export function distance(one, two, most) {
  if (Math.abs(one.length - two.length) > most) return most + 1;
  let row = Array.from({ length: two.length + 1 }, (_, at) => at);
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= two.length; j++) next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (one[i - 1] === two[j - 1] ? 0 : 1));
    if (Math.min(...next) > most) return most + 1;
    row = next;
  }
  return Math.min(row[two.length], most + 1);
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
    if (part === "..") {
      if (!parts.length) return null;
      parts.pop();
    } else if (part && part !== ".") parts.push(part);
  }
  const name = parts.join("/").replace(/\.md$/, "");
  for (const page of [name, `${name ? name + "/" : ""}README`]) if (pages.has(page)) return { page, at };
  return null;
}
