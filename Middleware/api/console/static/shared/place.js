// @ts-check
// Where the page is now, and what somebody writes there.
import { signal, useEffect, useRef } from "../vendor/preact.js";
// Takes a key out of the address before the address is read.
import "./key.js";
import { addressOf, barPage, placeIn, wayTo } from "./address.js";

export const place = signal(placeIn(location.hash));
/**
 * @typedef {import("./types.js").Place} Place
 * @typedef {{unsaved: () => boolean, stays: (next: Place) => boolean}} Written
 */

/** Texts that somebody writes. @type {Set<Written>} */
const written = new Set();

/** Whether the texts that would be lost may be; each is asked for once. @param {Place} [next] none: the place stays */
export function mayLeave(next) {
  const lost = [...written].filter(({ unsaved, stays }) => !(next && stays(next)) && unsaved());
  const may = !lost.length || confirm("What is not saved, or not answered yet, would be lost. Leave anyway?");
  if (may) for (const one of lost) written.delete(one);
  return may;
}

addEventListener("beforeunload", (event) => {
  if ([...written].some(({ unsaved }) => unsaved())) event.preventDefault();
});

/** @type {Record<string, string>} */
const left = {};

addEventListener("hashchange", ({ oldURL }) => {
  const next = placeIn(location.hash);
  if (!mayLeave(next)) return history.replaceState(history.state, "", oldURL);
  left[barPage(place.value.page)] = new URL(oldURL).hash;
  place.value = next;
});

/** Where the bar leads for a page. @param {string} name */
export const wayFor = (name) => wayTo(name, place.value.page, left);

/** @param {Place} next */
const isHere = ({ page, parts }) => String([page, parts]) === String([place.value.page, place.value.parts]);

/**
 * A text is being written while this part is shown: it is asked for before it is lost.
 * @param {() => boolean} unsaved @param {(next: Place) => boolean} [stays] whether it is kept at that place
 */
export function useUnsaved(unsaved, stays = isHere) {
  const latest = useRef(unsaved);
  latest.current = unsaved;
  useEffect(() => {
    const one = { unsaved: () => latest.current(), stays };
    written.add(one);
    return () => void written.delete(one);
  }, []);
}

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
