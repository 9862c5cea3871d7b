// @ts-check
// The runs that fit a filter: those that the server gave, and those of which it told since.
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { ACTIVE, isActive } from "../shared/run_state.js";
import { fits } from "./run_list.js";
import { ask, era, gone, remember, runs } from "../shared/server.js";
import { keyTurn } from "../shared/key.js";

/** @typedef {import("../shared/types.js").Summary} Summary */

const LIMIT = "50";
const AGAIN_MS = 2000;

/** @param {Record<string, string>} filter `text`, `user`, `key`, `workflow`, `state`
 * @returns {{runs: Summary[] | null, next: string | null, error: Error | null, again: () => void, more: () => void}} */
export function useRuns(filter) {
  const words = new URLSearchParams(Object.entries(filter).filter(([, value]) => value)).toString();
  const [told, tell] = useState(
    /** @type {{of: string, runs: Summary[], next: string | null}} */ ({ of: "", runs: [], next: null }),
  );
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const busy = useRef(false);
  const of = `${words}|${era.value}|${keyTurn.value}`;
  const read = useRef(of);
  read.current = of;

  const fetchPage = async (/** @type {string | null} */ before) => {
    busy.current = true;
    try {
      const query = new URLSearchParams(words);
      const active =
        !before && !filter.state
          ? ask("runs", { query: new URLSearchParams([...query, ["state", ACTIVE.join()], ["limit", "200"]]) })
          : null;
      query.set("limit", LIMIT);
      if (before) query.set("before", before);
      const [page, running] = await Promise.all([ask("runs", { query }), active]);
      if (read.current !== of) return;
      const all = [...page.runs, ...(running?.runs ?? [])];
      remember(all);
      tell((was) => ({ of, runs: before ? [...was.runs, ...all] : all, next: page.next }));
      setError(null);
    } catch (reason) {
      if (read.current === of) setError(/** @type {Error} */ (reason));
    } finally {
      busy.current = false;
    }
  };
  const again = () => void fetchPage(null);
  useLayoutEffect(again, [of]);

  // A text is looked for by the server: runs that changed since may fit now.
  const onServer = Boolean(filter.text) || (filter.state ?? "").split(",").includes("slow");
  const seq = onServer ? Math.max(0, ...[...runs.value.values()].map((run) => run.seq)) : 0;
  useEffect(() => {
    if (!onServer || told.of !== of) return;
    const clock = setTimeout(again, AGAIN_MS);
    return () => clearTimeout(clock);
  }, [seq]);

  const all = told.of ? joined(told, filter, onServer) : null;
  return {
    runs: all,
    next: told.of === of ? told.next : null,
    error,
    again,
    more: () => void (busy.current || !told.next || told.of !== of || fetchPage(told.next)),
  };
}

/**
 * @param {{runs: Summary[], next: string | null}} told
 * @param {Record<string, string>} filter
 * @param {boolean} onServer the filter is one that the page cannot tell by itself
 */
function joined(told, filter, onServer) {
  const byId = new Map(told.runs.map((run) => [run.id, run]));
  const oldest = told.next ? Math.min(...told.runs.map(({ at }) => at)) : 0;
  for (const [id, run] of runs.value) {
    if (byId.has(id) || (!onServer && (run.at >= oldest || isActive(run)))) byId.set(id, run);
  }
  const state = (filter.state ?? "").split(",").includes("slow") ? "" : filter.state;
  return [...byId.values()].filter((run) => !gone.value.has(run.id) && fits(run, { ...filter, state }));
}

/** @typedef {{odd: number, failed: number, waiting: number, slow: number, kept: number}} Counts */

/**
 * How many of all kept runs are odd, failed, wait, were slow; asked for again while runs change.
 * @returns {Counts | null}
 */
export function useCounts() {
  const [counts, setCounts] = useState(/** @type {Counts | null} */ (null));
  const asked = useRef(-AGAIN_MS);
  const seq = Math.max(0, ...[...runs.value.values()].map((run) => run.seq));
  useEffect(() => {
    const clock = setTimeout(
      () => {
        asked.current = performance.now();
        ask("runs", { query: { limit: "1" } }).then(
          (told) => setCounts(told.counts),
          () => setCounts(null),
        );
      },
      Math.max(0, asked.current + AGAIN_MS - performance.now()),
    );
    return () => clearTimeout(clock);
  }, [seq, era.value, keyTurn.value]);
  return counts;
}
