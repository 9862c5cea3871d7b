// @ts-check
// Which runs the list shows: what stands over it, and the runs that fit: those that the server gave, and those of which
// it told since.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { useOneStop } from "../shared/keys.js";
import { heldShown, turnHeld, turnList } from "./columns.js";
import { keyTurn } from "../shared/key.js";
import { ListSwitch, Menu } from "../shared/parts.js";
import { turn } from "../shared/place.js";
import { fits } from "./run_list.js";
import { ask, era, gone, remember, runs, state } from "../shared/server.js";
import { ACTIVE, isActive, number } from "../shared/words.js";

/** Filters that stand as chips over the list while there is such a run. */
const CHIPS = /** @type {const} */ (["odd", "failed", "waiting", "slow", "kept"]);
const CHIP_TITLES = {
  odd: "failed, or done with trouble",
  failed: "",
  waiting: "for a slot",
  slow: "longer than nine of ten of the same name",
  kept: "until the server restarts",
};
const TYPING_MS = 250;

/** @param {{filter: Record<string, string>}} props */
export function Filter({ filter }) {
  const typing = useRef(0);
  const [text, setText] = useState(filter.text);
  useEffect(() => setText(filter.text), [filter.text]);
  const counts = useCounts();
  const type = (/** @type {any} */ event) => {
    clearTimeout(typing.current);
    const typed = event.target.value;
    setText(typed);
    typing.current = setTimeout(() => turn({ text: typed }), TYPING_MS);
  };
  const chips = CHIPS.filter((name) => counts?.[name] || filter.state === name);
  const bar = useRef(/** @type {HTMLElement | null} */ (null));
  useOneStop(bar, ":scope > button, :scope > .menu > button");
  return html`<form class="filter" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <input type="search" placeholder="Find ( / )" aria-label="Find text, id or name" value=${text} onInput=${type} />
    <${ListSwitch} shown="runs" />
    <div class="pills" role="toolbar" aria-label="Which runs" ref=${bar}><${Names} filter=${filter} />
    ${chips.map(
      (name) => html`<button type="button" class="pill" aria-pressed=${filter.state === name}
      title=${CHIP_TITLES[name]} onClick=${() => turn({ state: filter.state === name ? null : name })}>${name}<b>
        ${number(counts?.[name] ?? 0)}</b></button>`,
    )}
    ${
      filter.state &&
      !CHIPS.includes(/** @type {any} */ (filter.state)) &&
      html`<button type="button" class="pill"
      title="any state" onClick=${() => turn({ state: null })}>${filter.state} ×</button>`
    }
    <button type="button" class="pill" aria-pressed=${heldShown.value}
      title="How much of the prompts was held" onClick=${turnHeld}>held</button>
    ${["user", "key", "name", "workflow"].map(
      (name) =>
        filter[name] &&
        html`<button type="button" class="pill"
      title=${`any ${name}`} onClick=${() => turn({ [name]: null })}>${filter[name]} ×</button>`,
    )}
    <button type="button" class="pill fold" title="Fold the list away ( [ )" aria-label="Fold the list away"
      onClick=${turnList}>«</button></div>
  </form>`;
}

/** Users, the model names that were asked and the keys, in one menu. @param {{filter: Record<string, string>}} props */
function Names({ filter }) {
  const users = state.value?.users ?? [];
  const asked = [...new Set([...runs.value.values()].map(({ name }) => name ?? ""))]
    .filter((name) => name && !users.includes(name))
    .sort();
  const keys = [...new Set([...runs.value.values()].map(({ key }) => key ?? ""))].filter(Boolean).sort();
  const choice = (/** @type {string} */ kind) => (/** @type {string} */ name) => ({
    title: name,
    note: kind === "name" ? "" : kind,
    checked: filter[kind] === name,
    act: () => turn({ user: null, key: null, name: null, [kind]: filter[kind] === name ? null : name }),
  });
  const group = (/** @type {string} */ kind, /** @type {string[]} */ names) =>
    names.length ? [null, ...names.map(choice(kind))] : [];
  return html`<${Menu} label="names" items=${[
    ...users.map(choice("user")),
    ...group("name", asked),
    ...group("key", keys),
  ]} />`;
}

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
