// @ts-check
// What the list of runs has besides its rows: switches, which the browser keeps, and marks.
import { signal } from "../vendor/preact.js";
import { keptSwitch } from "../shared/kept.js";

/** Whether each run says how much of its prompts the servers had been sent before. */
export const [heldShown, turnHeld] = keptSwitch("headrace-console-held");

/** Whether the list is folded away, so that the run has the whole width. */
export const [listFolded, turnList] = keptSwitch("headrace-console-folded");

/** A run that was opened by the keyboard: the focus goes into it. */
export const entered = { id: "" };

/** @typedef {{id: string, name: string | null, path: string, at: number}} Marked */

/** The runs that are marked for Compare, at most two, the older mark first. */
export const marked = signal(/** @type {Marked[]} */ ([]));

/** Marks a run, or takes its mark away. @param {Marked | undefined} run @returns {boolean} whether there was one */
export function mark(run) {
  if (!run) return false;
  const others = marked.value.filter(({ id }) => id !== run.id);
  marked.value = others.length < marked.value.length ? others : [...others.slice(-1), run];
  return true;
}
