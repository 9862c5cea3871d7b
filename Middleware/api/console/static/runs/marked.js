// @ts-check
// The runs that are marked for Compare, at most two, the older mark first.
import { signal } from "../vendor/preact.js";

/** @typedef {{id: string, name: string | null, path: string, at: number}} Marked */

export const marked = signal(/** @type {Marked[]} */ ([]));

/** Marks a run, or takes its mark away. @param {Marked | undefined} run @returns {boolean} whether there was one */
export function mark(run) {
  if (!run) return false;
  const others = marked.value.filter(({ id }) => id !== run.id);
  marked.value = others.length < marked.value.length ? others : [...others.slice(-1), run];
  return true;
}
