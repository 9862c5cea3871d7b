// @ts-check
// Where the page is now.
import { signal } from "../vendor/preact.js";
// Takes a key out of the address before the address is read.
import "./key.js";
import { addressOf, barPage, placeIn, wayTo } from "./address.js";

export const place = signal(placeIn(location.hash));
/** Asked before the place changes, with what would be it; one that gives false keeps the place as it is.
 * @type {Set<(next: import("./types.js").Place) => boolean>} */
export const guards = new Set();

/** @type {Record<string, string>} */
const left = {};

addEventListener("hashchange", ({ oldURL }) => {
  const next = placeIn(location.hash);
  if (![...guards].every((may) => may(next))) return history.replaceState(history.state, "", oldURL);
  left[barPage(place.value.page)] = new URL(oldURL).hash;
  place.value = next;
});

/** Where the bar leads for a page. @param {string} name */
export const wayFor = (name) => wayTo(name, place.value.page, left);

/** @param {string} address a fragment, with its `#` */
export function go(address) {
  location.hash = address;
}

/** Changes words of the query in place: no step back leads to what was.
 * @param {Record<string, string | number | null>} changes null takes a word away */
export function turn(changes) {
  const { page, parts, query } = place.value;
  const words = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) words.set(name, String(value ?? ""));
  const address = addressOf(page, parts, words);
  history.replaceState(history.state, "", address);
  place.value = placeIn(address);
}
