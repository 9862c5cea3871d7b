// @ts-check
// Asks before a text is left that somebody writes and has not saved.
import { useEffect, useRef } from "../vendor/preact.js";
import { guards, place } from "./place.js";

/**
 * @typedef {import("./types.js").Place} Place
 * @typedef {{unsaved: () => boolean, stays: (next: Place) => boolean}} Open
 */

const open = /** @type {Set<Open>} */ (new Set());

/** Whether the texts that would be lost may be. Asked once of each. @param {Place} [next] none: the place stays */
export function mayLeave(next) {
  const lost = [...open].filter(({ unsaved, stays }) => !(next && stays(next)) && unsaved());
  const may = !lost.length || confirm("Your changes are not saved. Leave anyway?");
  if (may) for (const one of lost) open.delete(one);
  return may;
}

guards.add(mayLeave);
addEventListener("beforeunload", (event) => {
  if ([...open].some(({ unsaved }) => unsaved())) event.preventDefault();
});

/** @param {Place} next */
const isHere = (next) => String([next.page, next.parts]) === String([place.value.page, place.value.parts]);

/**
 * A text is being written while this part is shown.
 * @param {() => boolean} unsaved @param {(next: Place) => boolean} [stays] whether it is kept at that place
 */
export function useUnsaved(unsaved, stays = isHere) {
  const latest = useRef(unsaved);
  latest.current = unsaved;
  useEffect(() => {
    const one = { unsaved: () => latest.current(), stays };
    open.add(one);
    return () => void open.delete(one);
  }, []);
}
