// @ts-check
// The list of runs: their order, which of them fit, the scale of their bars, how they grow. Pure.

import { clock, isActive, lengthOf } from "../shared/words.js";

/** @typedef {import("../shared/types.js").Summary} Summary */

/** Those that wait or run on top, in order of arrival; below them the newest first. @param {Iterable<Summary>} runs */
export function ordered(runs) {
  return [...runs].sort(
    (a, b) => Number(isActive(b)) - Number(isActive(a)) || (isActive(a) ? a.at - b.at : b.at - a.at),
  );
}

/** What a filter says of a run; what it says of texts and of slowness only the server knows.
 * @param {Summary} run @param {{user?: string | null, key?: string | null, workflow?: string | null, name?: string |
 *   null, state?: string | null}} filter */
export function fits(run, { user, key, workflow, name, state }) {
  return (
    (!user || run.user === user) &&
    (!key || (run.key ?? "-") === key) &&
    (!name || run.name === name) &&
    (!state || state.split(",").some((one) => isSo(run, one))) &&
    (!workflow || (run.workflow ?? "").split(" > ").includes(workflow))
  );
}

/** @param {Summary} run @param {string} word */
const isSo = (run, word) => {
  if (word === "odd") return run.level !== null && !isActive(run) && run.state !== "refused";
  return word === "kept" ? run.kept : run.state === word;
};

/**
 * Seconds that fill the width: the 90th percentile, so that one long run does not make the others dots.
 * @param {Summary[]} runs
 */
export function scaleOf(runs) {
  const lengths = runs.map(lengthOf).sort((a, b) => a - b);
  return lengths[Math.ceil(0.9 * lengths.length) - 1] ?? 0;
}

/** The mark of a run: how it is, or that it had trouble. @param {{state: string, level: string | null}} run */
export const markOf = ({ state, level }) => (state === "done" && level === "trouble" ? "trouble" : state);

/**
 * The workflow, where the name that was asked does not say it.
 * @param {{name: string | null, workflow: string | null}} run
 */
export function otherWorkflow({ name, workflow }) {
  const asked = (name ?? "").split(" -> ").at(-1) ?? "";
  return workflow && !asked.split(":").includes(workflow) ? workflow : "";
}

/** The run that is shown where none was chosen: the newest that does not wait. @param {Summary[]} ordered */
export const firstShown = (ordered) =>
  ordered
    .filter(({ state }) => state !== "waiting")
    .reduce((/** @type {Summary | null} */ newest, run) => (newest && newest.at >= run.at ? newest : run), null);

/** A run that goes on, as it is by now: its last part has grown since it was told of.
 * @template {{state: string, shape: [import("../shared/types.js").Part, number][], took_s: number, heard?: number}} R
 * @param {R} run @param {number} now by the page's own clock, in ms @returns {R} */
export function grown(run, now) {
  if (!isActive(run) || run.heard === undefined) return run;
  const more = Math.max(0, (now - run.heard) / 1000);
  const [part, length] = run.shape.at(-1) ?? ["queue", 0];
  return { ...run, shape: [...run.shape.slice(0, -1), [part, length + more]], took_s: run.took_s + more };
}

/** What is shown while the list holds still: the rows that were there, and how many wait to be shown.
 * @param {Summary[]} wanted in their order @param {string[]} shown ids @returns {{rows: Summary[], fresh: number}} */
export function held(wanted, shown) {
  const byId = new Map(wanted.map((run) => [run.id, run]));
  const rows = shown.flatMap((id) => byId.get(id) ?? []);
  const oldest = Math.min(...rows.map(({ at }) => at));
  const there = new Set(shown);
  const older = wanted.filter((run) => !there.has(run.id) && run.at < oldest && !isActive(run));
  return { rows: [...rows, ...older], fresh: wanted.length - rows.length - older.length };
}

/** Whether a routing picked the workflow: nodes of the outermost level stand in more than one file.
 * @param {{nodes: {parent: number | null, workflow: string}[]}} run */
export const wasRouted = ({ nodes }) =>
  new Set(nodes.filter(({ parent }) => parent === null).map(({ workflow }) => workflow)).size > 1;

/**
 * A sentence in pieces, so that names in it can stand out: every second piece is a name.
 * @param {string} text
 * @param {string[]} names
 */
export function withNames(text, names) {
  const known = [...new Set(names)].filter((name) => name.length > 1).sort((a, b) => b.length - a.length);
  if (!known.length) return [text];
  const words = known.map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  return text.split(new RegExp(`(?<![\\p{L}\\p{N}])(${words})(?![\\p{L}\\p{N}])`, "u"));
}

/** The same line more than once is one with its number.
 * @template {{text: string, rule: string}} T @param {T[]} lines @returns {(T & {times: number})[]} */
export function timesSaid(lines) {
  const made = /** @type {Map<string, T & {times: number}>} */ (new Map());
  for (const line of lines) {
    const name = `${line.rule}\n${line.text}`;
    made.set(name, { ...line, times: (made.get(name)?.times ?? 0) + 1 });
  }
  return [...made.values()];
}

/** The path of one call that is asked again. */
export const ASK = "/console/api/ask";

/** What a run repeats. @param {Summary | import("../shared/types.js").Run} run */
export const repeatWords = ({ again_of: first, path }) =>
  first && (path === ASK ? "asked again" : `again of ${clock(first.wall)}`);
