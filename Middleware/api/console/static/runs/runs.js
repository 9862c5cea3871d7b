// @ts-check
// Runs: the list, and beside it the run that is open.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { useCode, useNow } from "../shared/asked.js";
import { entered, heldShown, listFolded, mark, marked, turnList } from "./columns.js";
import { useFinder } from "../shared/finder.js";
import { listKeys, useKeys, useOneStop } from "../shared/keys.js";
import { Empty, Failed, Loading, Lock, Mark, Missing, Shape } from "../shared/parts.js";
import { go, turn } from "../shared/place.js";
import { clock, counted, isActive, listed, moment, number, seconds, shareWords } from "../shared/words.js";
import { firstShown, grown, held, markOf, ordered, otherWorkflow, repeatWords, scaleOf } from "./run_list.js";
import { Filter, useRuns } from "./filter.js";
import { runs, state } from "../shared/server.js";
import { firstRequest } from "./commands.js";

/** @typedef {import("../shared/types.js").Summary} Summary */

const FILTERS = ["user", "key", "name", "workflow", "state", "text"];
/** From this width on a run stands beside the list. */
const WIDE = "(min-width: 900px)";
const POINTING_MS = 1000;
const TELLING_MS = 10_000;
/** Shorter work after the answer is not worth a word. */
const AFTER_S = 1;

/** @param {{place: import("../shared/types.js").Place}} props */
export const Page = ({ place }) =>
  place.parts[1] === "ask" ? html`<${AskPage} place=${place} />` : html`<${RunsPage} place=${place} />`;

/** A call of a run that is asked again, `#/runs/<id>/ask/<i>/<k>`. @param {{place:
 * import("../shared/types.js").Place}} props */
function AskPage({ place }) {
  const { data: code, error } = useCode("ask", () => import("../again/ask.js"));
  const [id, , i, k] = place.parts;
  return code
    ? html`<${code.AskAgain} key=${place.parts.join("/")} id=${id} i=${Number(i)} k=${Number(k)} />`
    : html`<${Missing} error=${error} again=${() => location.reload()} />`;
}

/** @param {{place: import("../shared/types.js").Place}} props */
function RunsPage({ place }) {
  const id = place.parts[0] ?? "";
  const filter = Object.fromEntries(FILTERS.map((name) => [name, place.query.get(name) ?? ""]));
  const filtered = FILTERS.some((name) => filter[name]);
  const asked = useRuns(filter);
  // Loaded behind the list, which is seen first.
  const one = useCode(id || asked.runs ? "run" : "", () => import("./run.js"));
  const list = addressOf("runs", [], filter);
  // Nobody chose one: the newest is shown, without a change of focus or address.
  const newest = useRef("");
  if (!newest.current && !id && asked.runs && matchMedia(WIDE).matches)
    newest.current = firstShown(asked.runs)?.id ?? "";
  if (id) newest.current = "";
  const open = id || newest.current;
  useKeys({
    ...listKeys(".rows"),
    m: () => mark(runs.value.get(focused() || open)),
    "[": () => open !== "" && turnList(),
    Escape: () => id !== "" && (go(list), focusRow(id)),
  });
  if (asked.runs && !asked.runs.length && !filtered && !id)
    return state.value ? html`<${NoRun} />` : html`<${Loading} />`;
  const look = ["split", id && "open", listFolded.value && open && "folded"].filter(Boolean).join(" ");
  return html`<div class=${look}>
    <section class="list" aria-label="Runs" data-pane>
      ${!id && html`<h1 class="unseen">Runs</h1>`}
      <${Filter} filter=${filter} />
      ${asked.error && html`<${Failed} error=${asked.error} again=${asked.again} />`}
      ${
        asked.runs
          ? html`<${Rows} key=${list} asked=${asked} runs=${asked.runs} open=${open} unasked=${!id}
        filter=${filter} />`
          : !asked.error && html`<${Loading} rows=${8} />`
      }
      <${Marked} open=${id} />
    </section>
    ${
      open && one.data
        ? html`<${one.data.RunView} key=${open} id=${open} place=${place} back=${list} unasked=${!id} />`
        : html`<div class="run">${
            open
              ? html`<${Missing} error=${one.error} again=${() => location.reload()}
          rows=${9} />`
              : html`<p class="dim">Choose a run.</p>`
          }</div>`
    }
  </div>`;
}

/** The run of the row that has the focus; "": none has. */
const focused = () => /** @type {HTMLElement | null} */ (document.activeElement?.closest(".rows a"))?.dataset.id ?? "";

/** The marked ones, at the foot of the list; its code is loaded by the first mark. @param {{open: string}} props */
function Marked({ open }) {
  const there = marked.value.length > 0;
  const { data: code } = useCode(there ? "bar" : "", () => import("../compare/compare.js"));
  return there && code ? html`<${code.CompareBar} open=${open} />` : null;
}

/** @param {string} id */
function focusRow(id) {
  requestAnimationFrame(() =>
    /** @type {HTMLElement | null} */ (document.querySelector(`.rows a[data-id="${CSS.escape(id)}"]`))?.focus(),
  );
}

/**
 * @param {{asked: ReturnType<typeof useRuns>, runs: Summary[], open: string, unasked: boolean, filter: Record<string,
 *   string>}} props `unasked`: it opened by itself
 */
function Rows({ asked, runs, open, unasked, filter }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const shown = useRef(/** @type {string[]} */ ([]));
  const cache = useRef(new Map());
  const { still, hold } = useStillness();
  const wanted = ordered(runs);
  const { rows, fresh } = still && shown.current.length ? held(wanted, shown.current) : { rows: wanted, fresh: 0 };
  shown.current = rows.map(({ id }) => id);
  const now = useNow(rows.some(isActive));
  const scale = Math.ceil(20 * scaleOf(rows.map((run) => grown(run, now)))) / 20;
  const { odd = 0, pinned = 0 } = filtersNothing(filter) ? (state.value?.kept ?? {}) : {};
  // A shared link leads to a run that may stand far below.
  useEffect(() => box.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" }), [open]);
  useOneStop(box, "a, .more", false);
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
    const isMarked = marked.value.some(({ id }) => id === run.id);
    const look = `${run.id === open}|${unasked}|${scale}|${isMarked}`;
    const there = cache.current.get(run.id);
    if (there && there.run === run && there.look === look) return there.made;
    const made = html`<${Row} key=${run.id} run=${run} open=${run.id === open} unasked=${unasked} scale=${scale}
      filter=${filter} isMarked=${isMarked} />`;
    cache.current.set(run.id, { run, look, made });
    return made;
  };
  return html`${fresh > 0 && html`<button type="button" class="fresh" onClick=${show}>${number(fresh)} new</button>`}
    <ol class="rows" ref=${box} onScroll=${scrolled} onPointerMove=${() => hold(true, false, POINTING_MS)}>
    ${rows.map(row)}
      ${
        !asked.next &&
        odd + pinned > 0 &&
        html`<li class="keptlonger">kept longer: ${listed(odd && `${counted(odd, "older run")} with trouble`,
          pinned && `${counted(pinned, "older run")} until the restart`)}</li>`
      }
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

/**
 * @param {{run: Summary, open: boolean, unasked: boolean, scale: number, filter: Record<string, string>, isMarked:
 *   boolean}} props
 */
function Row({ run: told, open, unasked, scale, filter, isMarked }) {
  const run = grown(told, useNow(isActive(told)));
  const said = run.private
    ? html`<${Lock} />private: times and counts only`
    : html`${run.again_of && html`<b>${repeatWords(run)}</b> `}${
        run.task && `task: ${run.task} `
      }${run.said}`;
  const other = otherWorkflow(run);
  const enter = (/** @type {MouseEvent} */ event) => {
    if (event.detail) return; // by the pointer: the focus stays
    entered.id = run.id;
    if (open) /** @type {HTMLElement | null} */ (document.querySelector(".run h1"))?.focus();
  };
  return html`<li><a class="row" href=${addressOf("runs", [run.id], filter)} aria-current=${open || null}
    data-unasked=${open && unasked ? "" : null} data-id=${run.id} onClick=${enter}>
    <${Mark} state=${markOf(run)} />
    <span class="l"><span class="name">${
      run.name
        ? html`<b>${run.name}</b>`
        : html`<span class="dim">${run.path}
    </span>`
    }${other && html` <span class="dim">${other}</span>`}${
      run.key &&
      html` <span class="dim" title="key">
    ${run.key}</span>`
    }</span>
      <span class="took"><time title=${moment(run.at)}>${clock(run.at)}</time><b>${seconds(
        isActive(told) ? run.took_s : run.client_s,
      )}</b></span></span>
    <span class="said">${said}</span>
    <span class="l"><span class="bar"><${Shape} shape=${run.shape} scale=${scale} /></span>
    <span class=${`facts ${run.level ?? ""}`}>${rowFacts(run)}${
      heldShown.value &&
      told.held !== null &&
      html`<span>
    ${shareWords(told.held)}</span>`
    }</span></span></a><button type="button" class="tick" tabindex="-1" aria-pressed=${isMarked}
      aria-label=${`Mark ${run.name ?? run.path} ${clock(run.at)} to compare`} title="Mark to compare ( m )"
      onClick=${() => mark(told)}></button></li>`;
}

/** What stands at the right: where it is, what stood out, else the first word and the tokens. @param {Summary} run */
function rowFacts(run) {
  const after =
    run.after_s !== null && run.after_s >= AFTER_S && html`<span class="dim">+${seconds(run.after_s)} after</span>`;
  const refused = run.state === "refused" && run.status ? `status ${run.status}` : null;
  const told = (isActive(run) && (run.short ?? run.where)) || refused || run.short;
  if (told) return html`<span>${told}</span>${after}`;
  return html`${run.first_s !== null && html`<span>first ${seconds(run.first_s)}</span>`}${
    run.tokens !== null && html`<span>${run.about ? "about " : ""}${counted(run.tokens, "token")}</span>`
  }${after}`;
}

/** @param {Record<string, string>} filter */
const filtersNothing = (filter) => FILTERS.every((name) => !filter[name]);

/** New runs, told politely to those who hear the page. @param {{count: number}} props */
function Told({ count }) {
  const [said, setSaid] = useState("");
  const known = useRef({ count, at: performance.now() });
  useEffect(() => {
    const more = count - known.current.count;
    if (more <= 0) return void (known.current.count = count);
    const clock = setTimeout(
      () => {
        known.current = { count, at: performance.now() };
        setSaid(counted(more, "new run"));
      },
      known.current.at + TELLING_MS - performance.now(),
    );
    return () => clearTimeout(clock);
  }, [count]);
  return html`<p class="unseen" aria-live="polite">${said}</p>`;
}

function NothingFits() {
  const clear = () => turn(Object.fromEntries(FILTERS.map((name) => [name, null])));
  return html`<div class="nofit"><p>No run fits. ${number(state.value?.kept.runs ?? 0)} are kept.</p>
    <button type="button" onClick=${clear}>Show all</button></div>`;
}

function NoRun() {
  const user = state.value?.users[0] ?? "user";
  const address = new URL("../v1/chat/completions", document.baseURI).href;
  const { button, servers } = useFinder();
  return html`<${Empty} title="No request yet" sentence="Send one and it shows up here, while it runs:">
    <h2>sh</h2><pre tabindex="0">${firstRequest(address, user, "sh")}</pre>
    <h2>PowerShell</h2><pre tabindex="0">${firstRequest(address, user, "powershell")}</pre>
    <p class="acts">${button}
      <span class="dim">asks this machine which model servers answer, when you press it</span></p>
    ${servers}
    <p>or <a href="#/workflows">try a workflow</a>${" from its page. "}
      Nothing is written to disk: this page keeps the last 200 runs in memory.</p><//>`;
}
