// @ts-check
// Chats: the runs that are kept by the discussion that they belong to, and beside them the one that is open, with what
// memory holds of it: file memories, summary, state document, vector memories and times; with the right to save they
// are corrected here, and until the page is left that can be undone.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { useAsked, useTold } from "../shared/asked.js";
import { listKeys, useKeys } from "../shared/keys.js";
import { Failed, ListSwitch, Loading, Lock, Mark, Missing, Tabs } from "../shared/parts.js";
import { go, mayLeave, useUnsaved } from "../shared/place.js";
import { markOf } from "../runs/run_list.js";
import { ask, hasRight, runs } from "../shared/server.js";
import { clock, counted, listed, seconds, sentence, stateWords } from "../shared/words.js";

/**
 * @typedef {{user: string | null, id: string | null, mark: string | null, name: string | null, turns: number,
 *   runs: number, last: number, state: string, level: string | null}} ChatRow
 * @typedef {import("../shared/types.js").Summary & {question: string | null, answer: string | null}} TurnRun
 * @typedef {{n: number, runs: string[], rows: TurnRun[]}} Turn
 * @typedef {{name: string, turns: Turn[], memory: {kind: string, count: number}[], why: string | null}} Chat
 */

/** @param {{place: import("../shared/types.js").Place}} props */
export function Page({ place }) {
  const [user = "", id = ""] = place.parts;
  const { data, error, again } = useAsked("chats", 10);
  const ended = runs.value.size;
  useEffect(() => void again(), [ended]);
  useKeys({ ...listKeys(".rows"), Escape: () => id !== "" && go("#/chats") });
  const all = /** @type {ChatRow[] | undefined} */ (data?.chats);
  return html`<div class=${id ? "split open" : "split"}>
    <section class="list" aria-label="Chats"><h1 class=${id ? "unseen" : "listhead"}>Chats</h1>
      <${ListSwitch} shown="chats" />
      ${error && html`<${Failed} error=${error} again=${again} />`}
      ${all ? html`<${Rows} all=${all} user=${user} id=${id} />` : !error && html`<${Loading} rows=${8} />`}
    </section>
    ${id ? html`<${ChatView} key=${`${user} ${id}`} user=${user} id=${id} place=${place} />` : html`<div class="run">
      <p class="dim">Choose a chat.</p></div>`}
  </div>`;
}

/** @param {{all: ChatRow[], user: string, id: string}} props */
function Rows({ all, user, id }) {
  const [wanted, setWanted] = useState("");
  const fits = (/** @type {ChatRow} */ one) =>
    `${one.id ?? one.mark ?? "without a chat"} ${one.name ?? ""}`.toLowerCase().includes(wanted.trim().toLowerCase());
  const shown = all.filter(fits);
  return html`<div class="filter" role="search"><input type="search" data-search placeholder="Find ( / )"
      aria-label="Find a chat" value=${wanted}
      onInput=${(/** @type {any} */ event) => setWanted(event.target.value)} /></div>
    ${!all.length && html`<p class="dim none">No request yet.</p>`}
    <ol class="rows chatrows">${shown.map((one) => html`<li key=${`${one.user} ${one.id ?? one.mark}`}>
      <${Row} one=${one} open=${one.id !== null && one.user === user && one.id === id} /></li>`)}</ol>
    ${all.length > 0 && !shown.length && html`<p class="dim none">No chat matches.</p>`}`;
}

/** @param {{one: ChatRow, open: boolean}} props */
function Row({ one, open }) {
  const facts = html`<${Mark} state=${markOf(one)} /><span class="name"><b>${one.id ?? (one.mark ? `${one.mark}…`
      : "without a chat")}</b></span><time>${clock(one.last)}</time>
    <span class="said">${one.mark && html`<${Lock} /> `}${listed(one.name, one.mark && "private", one.turns > 0
      ? counted(one.turns, "turn") : counted(one.runs, "run"))}</span>`;
  if (!one.id || !one.user) return html`<div class="row">${facts}</div>`;
  return html`<a class="row" href=${addressOf("chats", [one.user, one.id])} aria-current=${open ? "page" : null}>
    ${facts}</a>`;
}

/** @param {{user: string, id: string, place: import("../shared/types.js").Place}} props */
function ChatView({ user, id, place }) {
  const path = `chats/${encodeURIComponent(user)}/${encodeURIComponent(id)}`;
  const { data, error, again } = useAsked(path, 10);
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  const there = data !== null;
  useEffect(() => {
    if (!there) return;
    document.title = `${id} - Headrace`;
    if (matchMedia("(max-width: 899px)").matches) heading.current?.focus();
  }, [there]);
  const back = html`<a class="back" href="#/chats">‹ All chats</a>`;
  if (!data) return html`<article class="run">${back}<h1 class="unseen">${id}</h1><${Missing} error=${error}
    again=${again} rows=${6} /></article>`;
  const chat = /** @type {Chat} */ (data);
  const last = chat.turns.at(-1);
  const chosen = Number(place.query.get("turn")) || last?.n || 0;
  const first = chat.turns[0]?.n ?? 0;
  const older = first > 2 ? `Turns 1 to ${first - 1} are older` : first === 2 ? "Turn 1 is older" : "";
  return html`<article class="run chat" aria-label=${`Chat ${id}`}>${back}
    <div class="head"><h1 tabindex="-1" ref=${heading}><span>${id}</span> <span class="dim">${listed(chat.name,
      last && counted(last.n, "turn"))}</span></h1>
      ${last && html`<div class="acts"><a class="button" href=${addressOf("runs", [last.runs.at(-1) ?? ""])}>
        Open the last run</a></div>`}</div>
    <div class="chatparts"><section class="turns" aria-label="Turns">
      ${older && html`<p class="dim">${older} than what this server keeps${chat.memory.some(({ count }) => count > 0)
        ? "; what memory made of it stands beside" : ""}.</p>`}
      ${!chat.turns.length && html`<p class="dim">No run of this chat is kept.</p>`}
      <ol>${chat.turns.map((turn) => html`<li key=${turn.n}><${TurnBox} turn=${turn} chosen=${turn.n === chosen}
        choose=${addressOf("chats", [user, id], { turn: turn.n })} /></li>`)}</ol></section>
    <${Memory} path=${path} kinds=${chat.memory} why=${chat.why} turn=${chosen} again=${again} /></div>
  </article>`;
}

/** @param {{turn: Turn, chosen: boolean, choose: string}} props */
function TurnBox({ turn, chosen, choose }) {
  const question = turn.rows.at(-1)?.question;
  return html`<div class=${chosen ? "turn chosen" : "turn"}>
    <p class="dim"><a href=${choose} aria-current=${chosen ? "true" : null}>turn ${turn.n}</a>
      ${turn.rows.length > 1 && html` ${counted(turn.rows.length, "answer")}`}</p>
    <p class="asked">${question ?? html`<span class="dim">its text is not kept</span>`}</p>
    ${turn.rows.map((run) => html`<div class="got" key=${run.id}>
      <p class="dim"><${Mark} state=${markOf(run)} />
        <a href=${addressOf("runs", [run.id])}>${clock(run.at)}</a> ${listed(seconds(run.client_s), run.state !== "done"
        && stateWords(run.state), run.level && run.short)}</p>
      <p>${run.answer ?? html`<span class="dim">no answer is kept</span>`}</p></div>`)}
  </div>`;
}

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
function Memory({ path, kinds, why, turn, again }) {
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
      <${Kind} key=${kind} path=${path} kind=${kind} count=${count} turn=${turn} times=${done.times}
        correct=${may ? correct : null} /><//>
    <p class="dim">${!may && html`Read only: start the server with <code>--console edit</code> to correct memories here,
      or use <code>--memory</code>. `}<a href="#/help/memory?at=correct-what-is-remembered">How memories are
      corrected</a>, <a href="#/help/memory">how they are made</a></p></section>`;
}

/** @param {{path: string, kind: string, count: number, turn: number, times: number, correct: Correct | null}} props
 *   `times`: how often something was corrected */
function Kind({ path, kind, count, turn, times, correct }) {
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
    <ol class="memories">${data?.rows.map((row, at) => html`<${Held} key=${row.from ?? at} row=${row} turn=${turn}
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
function Held({ row, turn, correct }) {
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
