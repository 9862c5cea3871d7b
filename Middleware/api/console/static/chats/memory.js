// @ts-check
// What memory holds of a chat: file memories, summary, state document, vector memories and times; with the right to
// save they are corrected here, and until the page is left that can be undone.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { useTold } from "../shared/asked.js";
import { mayLeave, useUnsaved } from "../shared/place.js";
import { Missing, Tabs } from "../shared/parts.js";
import { ask, hasRight } from "../shared/server.js";
import { clock, counted, listed, sentence } from "../shared/words.js";

/**
 * @typedef {{text: string, at: number | null, from: string | null, sum: string | null, pinned: boolean,
 *   made_by: {run: string, turn: number} | null}} MemoryRow
 * @typedef {{rows: MemoryRow[], next: number | null}} MemoryPage
 * @typedef {(wish: Record<string, string | null>) => Promise<boolean>} Correct whether it was done
 */

const TITLES = /** @type {Record<string, string>} */ ({
  memories: "Memories",
  summary: "Summary",
  state: "State",
  vectors: "Vectors",
  times: "Times",
});
const TYPING_MS = 250;
/** Of corrections the server keeps so many. */
const MOST_UNDONE = 5;

/**
 * @param {{path: string, kinds: {kind: string, count: number}[], why: string | null, turn: number,
 *   again: () => void}} props `again`: the counts have changed */
export function Memory({ path, kinds, why, turn, again }) {
  const first = kinds.find(({ count }) => count > 0)?.kind ?? "memories";
  const [chosen, choose] = useState("");
  const [done, tell] = useState({ times: 0, said: "", bad: false, states: /** @type {string[]} */ ([]) });
  const line = useRef(/** @type {HTMLElement | null} */ (null));
  const busy = useRef(false);
  const kind = chosen || first;
  const count = kinds.find((one) => one.kind === kind)?.count ?? 0;
  const tabs = kinds.map((one) => ({ name: one.kind, title: TITLES[one.kind] }));
  const may = hasRight("save");

  const correct = /** @type {Correct} */ (
    async (wish) => {
      if (busy.current) return false;
      busy.current = true;
      choose(kind);
      const undoes = wish.act === "undo";
      const before = undoes ? done.states.slice(0, -1) : done.states;
      const told = await ask(`${path}/memory`, { method: "POST", body: wish }).catch((error) => error);
      const bad = told instanceof Error;
      const states = bad ? (undoes ? [] : before) : [...before, ...(undoes ? [] : [told.state ?? []].flat())];
      tell({
        times: done.times + 1,
        said: bad ? sentence(told.message) : told.said.join(" "),
        bad,
        states: states.slice(-MOST_UNDONE),
      });
      busy.current = false;
      again();
      if (undoes || wish.act === "forget") line.current?.focus();
      return !bad;
    }
  );

  return html`<section class="memory" aria-label="What memory holds"><h2>What memory holds</h2>
    ${why && html`<p class="notes quiet">${sentence(why)}</p>`}
    ${may && html`<div class="acts corrected"><span role="status" tabindex="-1" ref=${line}
      class=${done.bad ? "trouble" : ""}>${done.said}</span>
      ${done.states.length > 0 && html`<button type="button" class="small" aria-label="Undo the last correction"
        onClick=${() => correct({ act: "undo", state: done.states.at(-1) ?? "" })}>Undo</button>`}</div>`}
    <${Tabs} label="Kinds of memory" tabs=${tabs} chosen=${kind}
      choose=${(/** @type {string} */ wanted) => mayLeave() && choose(wanted)}>
      <${Rows} key=${kind} path=${path} kind=${kind} count=${count} turn=${turn} times=${done.times}
        correct=${may ? correct : null} /><//>
    <p class="dim">${!may && html`Read only: start the server with <code>--console edit</code> to correct memories here,
      or use <code>--memory</code>. `}<a href="#/help/memory?at=correct-what-is-remembered">How memories are
      corrected</a>, <a href="#/help/memory">how they are made</a></p></section>`;
}

/** @param {{path: string, kind: string, count: number, turn: number, times: number, correct: Correct | null}} props
 *   `times`: how often something was corrected */
function Rows({ path, kind, count, turn, times, correct }) {
  const [typed, setTyped] = useState("");
  const [text, setText] = useState("");
  const [pages, setPages] = useState(1);
  useEffect(() => {
    const soon = setTimeout(() => (setText(typed), setPages(1)), TYPING_MS);
    return () => clearTimeout(soon);
  }, [typed]);
  const of = count ? `${path} ${kind} ${text}` : "";
  const { data, error, again } = useTold(
    of,
    (signal) => rowsOf(`${path}/memory`, { kind, text }, pages, signal),
    `${count} ${times} ${pages}`,
  );
  if (!count) return html`<p class="dim">Nothing.</p>`;
  return html`${count > 1 && html`<input type="search" placeholder="Find" aria-label=${`Find in ${TITLES[kind]}`}
      value=${typed} onInput=${(/** @type {any} */ event) =>
        mayLeave() ? setTyped(event.target.value) : (event.target.value = typed)} />`}
    <ol class="memories">${data?.rows.map((row, at) => html`<${Row} key=${row.from ?? at} row=${row} turn=${turn}
      correct=${row.from && correct} />`)}</ol>
    ${!data && html`<${Missing} error=${error} again=${again} rows=${3} />`}
    ${data && !data.rows.length && html`<p class="dim">Nothing matches.</p>`}
    ${data?.next && html`<button type="button" onClick=${() => setPages(pages + 1)}>Show more</button>`}
    ${data && html`<p class="dim" role="status">${counted(data.rows.length, "row")} of ${count}</p>`}`;
}

/** So many pages, one behind the other.
 * @param {string} path @param {Record<string, string>} query @param {number} pages @param {AbortSignal} signal
 * @returns {Promise<MemoryPage>} */
async function rowsOf(path, query, pages, signal) {
  const { rows, next } = await ask(path, { query, signal });
  const all = { rows, next };
  while (all.next && --pages) {
    const more = await ask(path, { query: { ...query, offset: String(all.next) }, signal });
    all.rows.push(...more.rows);
    all.next = more.next;
  }
  return all;
}

const focus = (/** @type {HTMLElement | null} */ box) => box?.focus();

/** @param {{row: MemoryRow, turn: number, correct: Correct | null}} props */
function Row({ row, turn, correct }) {
  const { text, at, from, sum, pinned } = row;
  /** What is being written, over the text with this sum. */
  const [draft, write] = useState(/** @type {{text: string, sum: string | null} | null} */ (null));
  useUnsaved(() => draft !== null && draft.text !== text);
  const first = useRef(/** @type {HTMLElement | null} */ (null));
  const isMemory = /^[fv]\d/.test(from ?? "");
  const name = isMemory ? `memory ${from}` : from;
  const close = () => (write(null), first.current?.focus());
  const act = (/** @type {string} */ word) => correct?.({ act: word, number: from, sum });
  const save = async () =>
    draft && (draft.text === text || (await correct?.({ act: "edit", number: from, ...draft }))) && close();
  const button = (/** @type {string} */ words, /** @type {() => unknown} */ deed, /** @type {any} */ ref = null) =>
    html`<button type="button" class="small" aria-label=${`${words} ${name}`} ref=${ref} onClick=${deed}>${words}
      </button>`;
  return html`<li class=${row.made_by?.turn === turn ? "made" : ""}>
    <p class="dim">${listed(madeBy(row, turn), at !== null && clock(at), from, pinned && "pinned")}</p>
    ${draft
      ? html`<textarea rows="6" ref=${focus} aria-label=${`Text of ${name}`} value=${draft.text}
          onInput=${(/** @type {any} */ event) => write({ ...draft, text: event.target.value })}
          onKeyDown=${(/** @type {KeyboardEvent} */ event) =>
            event.key === "Escape" && (event.preventDefault(), close())}></textarea>`
      : html`<p class="text" key="text">${text}</p>`}
    ${correct && html`<p class="acts" key="acts">
      ${draft ? button("Save", save, first) : button("Edit", () => write({ text, sum }), first)}
      ${draft ? button("Cancel", close) : isMemory && button("Forget", () => confirm(`Forget ${name}?`)
        && act("forget"))}
      ${!draft && isMemory && button(pinned ? "Unpin" : "Pin", () => act(pinned ? "unpin" : "pin"))}</p>`}</li>`;
}

/** @param {MemoryRow} row @param {number} turn the one that is chosen */
const madeBy = ({ made_by: maker }, turn) => maker && `${maker.turn === turn ? "made " : ""}by turn ${maker.turn}`;
