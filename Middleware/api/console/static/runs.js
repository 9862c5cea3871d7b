// @ts-check
// Runs: the list, and beside it the run that is open.
import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { addressOf } from "./address.js";
import { useCode } from "./asked.js";
import { heldShown, turnHeld } from "./columns.js";
import { listKeys, useKeys } from "./keys.js";
import { Empty, Failed, Loading, Lock, Mark, Missing, Shape } from "./parts.js";
import { go, turn } from "./place.js";
import { counted, clock, moment, number, seconds, shareWords } from "./words.js";
import { ACTIVE, grown, held, isActive, ordered, scaleOf } from "./run_list.js";
import { useRuns } from "./runs_asked.js";
import { state } from "./server.js";
import { firstRequest } from "./commands.js";
import { useNow } from "./tick.js";

/** @typedef {import("./types.js").Summary} Summary */

const FILTERS = ["user", "key", "workflow", "state", "text"];
const STATES = [["", "any state"], [ACTIVE.join(), "running"], ...["waiting", "done", "failed", "cancelled", "refused"].map((name) => [name, name])];
const TYPING_MS = 250;
const POINTING_MS = 1000;
const TELLING_MS = 10_000;

/** @param {{place: import("./types.js").Place}} props */
export function Page({ place }) {
  const id = place.parts[0] ?? "";
  const filter = Object.fromEntries(FILTERS.map((name) => [name, place.query.get(name) ?? ""]));
  const filtered = FILTERS.some((name) => filter[name]);
  const asked = useRuns(filter);
  // Loaded behind the list, which is seen first.
  const one = useCode(id || asked.runs ? "run" : "", () => import("./run.js"));
  const list = addressOf("runs", [], filter);
  useKeys({
    ...listKeys(".rows"),
    Escape: () => id !== "" && (go(list), focusRow(id)),
  });
  if (asked.runs && !asked.runs.length && !filtered && !id) return state.value ? html`<${NoRun} />` : html`<${Loading} />`;
  return html`<div class=${id ? "split open" : "split"}>
    <section class="list" aria-label="Runs">
      ${!id && html`<h1 class="unseen">Runs</h1>`}
      <${Filter} filter=${filter} runs=${asked.runs ?? []} />
      ${asked.error && html`<${Failed} error=${asked.error} again=${asked.again} />`}
      ${asked.runs ? html`<${Rows} key=${list} asked=${asked} runs=${asked.runs} open=${id} filter=${filter} />` : !asked.error && html`<${Loading} rows=${8} />`}
    </section>
    ${id && one.data ? html`<${one.data.RunView} key=${id} id=${id} place=${place} back=${list} />`
      : html`<div class="run">${id ? html`<${Missing} error=${one.error} again=${() => location.reload()} rows=${9} />` : html`<p class="dim">Choose a run.</p>`}</div>`}
  </div>`;
}

/** @param {string} id */
function focusRow(id) {
  requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector(`.rows a[data-id="${CSS.escape(id)}"]`))?.focus());
}

/** @param {{filter: Record<string, string>, runs: Summary[]}} props */
function Filter({ filter, runs }) {
  const typing = useRef(0);
  const [text, setText] = useState(filter.text);
  useEffect(() => setText(filter.text), [filter.text]);
  const users = new Set([...(state.value?.users ?? []), filter.user].filter(Boolean));
  const keys = new Set([...runs.map(({ key }) => key ?? ""), filter.key].filter(Boolean));
  const type = (/** @type {any} */ event) => {
    clearTimeout(typing.current);
    const typed = event.target.value;
    setText(typed);
    typing.current = setTimeout(() => turn({ text: typed }), TYPING_MS);
  };
  const choose = (/** @type {string} */ name) => (/** @type {any} */ event) => turn({ [name]: event.target.value });
  return html`<form class="filter" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <input type="search" placeholder="Find ( / )" aria-label="Find text, id or workflow" value=${text} onInput=${type} />
    <select aria-label="User" value=${filter.user} onChange=${choose("user")}><option value="">all users</option>${[...users].map((user) => html`<option value=${user}>${user}</option>`)}</select>
    ${keys.size > 0 && html`<select aria-label="Key" value=${filter.key} onChange=${choose("key")}><option value="">all keys</option>${[...keys].sort().map((key) => html`<option value=${key}>${key}</option>`)}</select>`}
    <select aria-label="State" value=${filter.state} onChange=${choose("state")}>${STATES.map(([value, title]) => html`<option value=${value}>${title}</option>`)}</select>
    <button type="button" aria-pressed=${heldShown.value} title="Show how much of each run's prompts the model servers still held" onClick=${turnHeld}>held</button>
    ${filter.workflow && html`<button type="button" title="all workflows" onClick=${() => turn({ workflow: null })}>${filter.workflow} ×</button>`}
  </form>`;
}

/** @param {{asked: ReturnType<typeof useRuns>, runs: Summary[], open: string, filter: Record<string, string>}} props */
function Rows({ asked, runs, open, filter }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const shown = useRef(/** @type {string[]} */ ([]));
  const cache = useRef(new Map());
  const { still, hold } = useStillness();
  const wanted = ordered(runs);
  const { rows, fresh } = still && shown.current.length ? held(wanted, shown.current) : { rows: wanted, fresh: 0 };
  shown.current = rows.map(({ id }) => id);
  const now = useNow(rows.some(isActive));
  const scale = Math.ceil(2 * scaleOf(rows.map((run) => grown(run, now)))) / 2;
  if (!rows.length) return html`<${NothingFits} />`;
  const scrolled = (/** @type {any} */ event) => {
    const { scrollTop, scrollHeight, clientHeight } = event.target;
    hold(scrollTop > 4);
    if (scrollHeight - scrollTop - clientHeight < 400) asked.more();
  };
  const show = () => {
    if (box.current) box.current.scrollTop = 0;
    hold(false, true);
  };
  /** The same row is the same object: what has not changed is not compared again. @param {Summary} run */
  const row = (run) => {
    const mark = `${run.id === open}|${scale}`;
    const there = cache.current.get(run.id);
    if (there && there.run === run && there.mark === mark) return there.made;
    const made = html`<${Row} key=${run.id} run=${run} open=${run.id === open} scale=${scale} filter=${filter} />`;
    cache.current.set(run.id, { run, mark, made });
    return made;
  };
  return html`${fresh > 0 && html`<button type="button" class="fresh" onClick=${show}>${number(fresh)} new</button>`}
    <ol class="rows" ref=${box} onScroll=${scrolled} onPointerMove=${() => hold(true, false, POINTING_MS)}>${rows.map(row)}
      ${asked.next && html`<li><button type="button" class="more" onClick=${asked.more}>older runs</button></li>`}</ol>
    <${Told} count=${runs.length} />`;
}

/** Whether the list holds still: while it is scrolled, and while the pointer moves over it. */
function useStillness() {
  const [still, setStill] = useState(false);
  const away = useRef(false);
  const clock = useRef(0);
  const hold = (/** @type {boolean} */ wanted, now = false, forMs = 0) => {
    clearTimeout(clock.current);
    if (forMs) clock.current = setTimeout(() => setStill(away.current), forMs);
    else away.current = wanted;
    setStill(wanted && !now);
  };
  useEffect(() => () => clearTimeout(clock.current), []);
  return { still, hold };
}

/** @param {{run: Summary, open: boolean, scale: number, filter: Record<string, string>}} props */
function Row({ run: told, open, scale, filter }) {
  const run = grown(told, useNow(isActive(told)));
  const refused = run.state === "refused" && run.status ? `status ${run.status}` : null;
  const facts = run.where ?? refused ?? html`${run.first_s !== null && html`<span>first ${seconds(run.first_s)}</span>`}${run.tokens !== null && html`<span>${run.about ? "about " : ""}${number(run.tokens)} tok</span>`}`;
  return html`<li><a class="row" href=${addressOf("runs", [run.id], filter)} aria-current=${open || null} data-id=${run.id}>
    <${Mark} state=${run.state} />
    <span class="name">${run.user ? html`<b>${run.user}</b> <span class="dim">›</span> <span>${run.workflow || "no workflow"}</span>` : html`<span class="dim">${run.path}</span>`}${run.task && html` <span class="dim">${run.task} task</span>`}${run.private && html`<${Lock} />`}<span class="dim via">${run.front}</span>${run.key && html`<span class="dim via" title="key">${run.key}</span>`}</span>
    <span class="took"><time title=${moment(run.at)}>${clock(run.at)}</time><b>${seconds(run.took_s)}</b></span>
    <span class="bar">${run.ahead && run.said ? html`<span class="asking" title=${run.said}>${run.said}</span>` : html`<${Shape} shape=${run.shape} scale=${scale} />`}</span>
    <span class="facts">${facts}${heldShown.value && told.held !== null && html`<span>${shareWords(told.held)}</span>`}</span></a></li>`;
}

/** New runs, told politely to those who hear the page. @param {{count: number}} props */
function Told({ count }) {
  const [said, setSaid] = useState("");
  const known = useRef({ count, at: performance.now() });
  useEffect(() => {
    const more = count - known.current.count;
    if (more <= 0) return void (known.current.count = count);
    const clock = setTimeout(() => {
      known.current = { count, at: performance.now() };
      setSaid(counted(more, "new run"));
    }, known.current.at + TELLING_MS - performance.now());
    return () => clearTimeout(clock);
  }, [count]);
  return html`<p class="unseen" aria-live="polite">${said}</p>`;
}

function NothingFits() {
  const clear = () => turn(Object.fromEntries(FILTERS.map((name) => [name, null])));
  return html`<div class="nofit"><p>No run fits. ${number(state.value?.kept.runs ?? 0)} are kept.</p><button type="button" onClick=${clear}>Show all</button></div>`;
}

function NoRun() {
  const user = state.value?.users[0] ?? "user";
  const address = new URL("../v1/chat/completions", document.baseURI).href;
  return html`<${Empty} title="No request yet" sentence="Send one and it shows up here, while it runs:">
    <h2>sh</h2><pre tabindex="0">${firstRequest(address, user, "sh")}</pre>
    <h2>PowerShell</h2><pre tabindex="0">${firstRequest(address, user, "powershell")}</pre>
    <p>or <a href="#/workflows">try a workflow</a> from its page. Nothing is written to disk: this page keeps the last 200 runs in memory.</p><//>`;
}
