// @ts-check
// Chats: the runs that are kept by the discussion that they belong to, and beside them the one that is open.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { useAsked } from "../shared/asked.js";
import { listKeys, useKeys } from "../shared/keys.js";
import { Failed, ListSwitch, Loading, Lock, Mark, Missing } from "../shared/parts.js";
import { go } from "../shared/place.js";
import { runs } from "../shared/server.js";
import { clock, counted, listed, seconds, stateWords } from "../shared/words.js";
import { markOf } from "../runs/run_list.js";
import { Memory } from "./memory.js";

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

