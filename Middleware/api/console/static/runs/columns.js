// @ts-check
// What the list of runs has besides its rows: switches, which the browser keeps, and marks.
import { signal } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { keptSwitch } from "../shared/kept.js";
import { go } from "../shared/place.js";

/** Whether each run says how much of its prompts the servers had been sent before. */
export const [heldShown, turnHeld] = keptSwitch("headrace-console-held");

/** Whether the list is folded away, so that the run has the whole width. */
export const [listFolded, turnList] = keptSwitch("headrace-console-folded");

/** A run that was opened by the keyboard: the focus goes into it. */
export const entered = { id: "" };

/** @typedef {{id: string, name: string | null, path: string, at: number}} Marked */

/** The runs that are marked for Compare, at most two, the older mark first. */
export const marked = signal(/** @type {Marked[]} */ ([]));

/** Marks a run, and shows the list, where the other one is chosen. @param {Marked} run */
export function compareWith(run) {
  if (!marked.value.some(({ id }) => id === run.id)) mark(run);
  if (listFolded.value) turnList();
  if (matchMedia("(max-width: 899px)").matches) go(addressOf("runs"));
}

/** Marks a run, or takes its mark away. @param {Marked | undefined} run @returns {boolean} whether there was one */
export function mark(run) {
  if (!run) return false;
  const others = marked.value.filter(({ id }) => id !== run.id);
  marked.value = others.length < marked.value.length ? others : [...others.slice(-1), run];
  return true;
}
