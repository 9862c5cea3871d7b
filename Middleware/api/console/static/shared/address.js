// @ts-check
// Where the page is, as the fragment of its address: `#/<page>/<part>/...?<query>`. Pure.

/** @typedef {import("./types.js").Place} Place */

/** @param {string} hash @returns {Place} */
export function placeIn(hash) {
  const [path, ...words] = hash.replace(/^#?\/?/, "").split("?");
  const [page, ...parts] = path.split("/").map(decoded);
  return { page: page || "runs", parts, query: new URLSearchParams(words.join("?")) };
}

/** Values that are empty are left out.
 * @param {string} page @param {string[]} [parts] @param {URLSearchParams | Record<string, string | number | null |
 *   undefined>} [query] */
export function addressOf(page, parts = [], query = {}) {
  const pairs = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const words = new URLSearchParams(
    pairs.filter(([, value]) => (value ?? "") !== "").map(([name, value]) => [name, String(value)]),
  );
  const path = [page, ...parts].map(encodeURIComponent).join("/");
  return `#/${path}${words.size ? `?${words}` : ""}`;
}

/** Pages that have an address of their own and stand in another one. @type {Record<string, string>} */
const WITHIN = { chats: "runs", "model-names": "workflows" };

/** The page of the bar in which a page stands. @param {string} page */
export const barPage = (page) => WITHIN[page] ?? page;

/**
 * Where the bar leads for a page: to what was open there; from there on to its list.
 * @param {string} name @param {string} page the one that is open @param {Record<string, string>} left page of the bar
 *   -> the address at which it was left
 */
export const wayTo = (name, page, left) => (name !== barPage(page) && left[name]) || `#/${name}`;

/** Each part is encoded by itself. @param {string} path */
export const pathInAddress = (path) => path.split("/").map(encodeURIComponent).join("/");

/** A part that is no proper code stays as it is. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
