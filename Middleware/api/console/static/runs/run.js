// @ts-check
// One run: what it is, what stood out, when each node did what, and the tabs of the chosen node.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { useNow } from "../shared/asked.js";
import { AgainWindow, Keep, RepeatOf, RunAgain } from "../again/deeds.js";
import { addressOf } from "../shared/address.js";
import { CopyMenu } from "./copy_menu.js";
import { firstNode, firstPart } from "./fall_scale.js";
import { keyTurn } from "../shared/key.js";
import { useKeys, useOneStop } from "../shared/keys.js";
import { Answer, NodeTabs, PRIVATE, Request, fileOf } from "./node_tabs.js";
import { entered, listFolded, turnList } from "./columns.js";
import { Dialog, Facts, Lock, Mark, Missing } from "../shared/parts.js";
import { go, turn } from "../shared/place.js";
import { grown, markOf, otherWorkflow, timesSaid, withNames } from "./run_list.js";
import { ask, era, hasRight, needsKey, runs } from "../shared/server.js";
import { Waterfall } from "./waterfall.js";
import {
  costWords, isActive, listed, moment, number, seconds, stateWords, unbroken, usedWords,
} from "../shared/words.js";

/** @typedef {import("../shared/types.js").Run} Run */

const AGAIN_MS = 1000;
const NARROW = "(max-width: 899px)";
/** More lines of what stood out are folded. */
const MOST_LINES = 3;
const FORGOTTEN =
  "The texts of this run are not kept: newer runs needed the memory, or the server keeps none. " +
  "Times and counts remain.";
/** The page of the docs that says more of what stood out. */
const PAGES = /** @type {Record<string, string>} */ ({ read_again: "prompt-reuse" });

/**
 * @param {{id: string, place: import("../shared/types.js").Place, back: string, unasked?: boolean}} props `unasked`:
 *   nobody chose it: title and focus stay
 */
export function RunView({ id, place, back, unasked }) {
  const { run, error, again } = useRun(id);
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  const details = useRef(/** @type {HTMLElement | null} */ (null));
  const here = run !== null;
  useEffect(() => {
    if (!run || unasked) return;
    document.title = `${run.name ?? run.path} - Headrace`;
    if (matchMedia(NARROW).matches || entered.id === id) heading.current?.focus();
    entered.id = "";
    return () => void (document.title = "Runs - Headrace");
  }, [here]);
  const first = html`<a class="back" href=${back}>‹ All runs</a>`;
  if (!run)
    return html`<article class="run" aria-label="Run">${first}<h1 class="unseen">Run ${id}</h1><${Missing}
      error=${error} again=${again} rows=${9} /></article>`;
  // An address that names a tab alone means the node that answers.
  const wanted = place.query.get("node") ?? String(place.query.get("tab") ? firstNode(run.nodes) : firstPart(run));
  const chosen = wanted === "request" || wanted === "answer" ? wanted : Number(wanted);
  const node = typeof chosen === "number" ? (run.nodes[chosen] ?? null) : null;
  // The last try is what the node went on with.
  const k = Number(place.query.get("call") ?? Math.max(0, (node?.calls.length ?? 0) - 1));
  const choose = (/** @type {import("./fall_scale.js").Shown} */ part, /** @type {number | undefined} */ call) => {
    turn({ node: part, call: call ?? null });
    // On a narrow page they stand below everything else.
    if (matchMedia(NARROW).matches) requestAnimationFrame(() => details.current?.scrollIntoView({ block: "start" }));
  };
  const shown = node
    ? html`<${NodeTabs} run=${run} node=${node} k=${k} tab=${place.query.get("tab") ?? ""}
        choose=${(/** @type {string} */ tab) => turn({ node: node.i, tab })} />`
    : chosen === "request"
      ? html`<h2>Request</h2><${Request} run=${run} none=${noText(run)} />`
      : html`<h2>Answer</h2><${Answer} run=${run} none=${noText(run)} again=${again} />`;
  return html`<article class="run" aria-label=${`Run ${run.id}`}>
    <div class="runhead" data-pane>${first}
      <${Head} run=${run} heading=${heading} node=${node} k=${k} />
      <${Summary} run=${run} />
      ${run.private && html`<p class="notes quiet"><${Lock} /> ${PRIVATE}</p>`}
      ${!run.private && !run.texts && run.nodes.length > 0 && html`<p class="notes quiet">${FORGOTTEN}</p>`}
      <${StoodOut} run=${run} /></div>
    ${
      run.nodes.length || isActive(run)
        ? html`<div class="runbody"><${Waterfall} run=${run} chosen=${node || chosen === "request" ? chosen : "answer"}
            call=${k} choose=${choose} />
          <section class="details" aria-label="Details" ref=${details} data-pane tabindex="-1">${shown}</section></div>`
        : html`<p class="dim">No node has started.</p>`
    }
    <${AgainWindow} run=${run} />
  </article>`;
}

/** Why a text of the run is not there. @param {Run} run */
function noText(run) {
  if (run.private) return PRIVATE;
  if (run.state === "waiting") return "It has not begun yet.";
  return run.texts ? "There is none." : FORGOTTEN;
}

/** The run; asked for again when an event says that it changed, at most once a second. @param {string} id */
export function useRun(id) {
  const [run, setRun] = useState(/** @type {Run | null} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const asked = useRef(-AGAIN_MS);
  const mine = useRef({ here: true });
  const fetchRun = () => {
    asked.current = performance.now();
    ask(`runs/${encodeURIComponent(id)}`).then(
      (/** @type {Run} */ told) => mine.current.here && (setRun({ ...told, heard: performance.now() }), setError(null)),
      (reason) => mine.current.here && (setError(reason), reason.status === 404 && setRun(null)),
    );
  };
  const news = runs.value.get(id);
  const mark = `${news?.seq ?? 0}|${news && isActive(news) ? news.tokens : ""}|${era.value}|${keyTurn.value}`;
  useEffect(() => {
    const wait = Math.max(0, AGAIN_MS - (performance.now() - asked.current));
    const clock = setTimeout(
      () => (run && news && news.seq <= run.seq && !isActive(run) ? undefined : fetchRun()),
      wait,
    );
    return () => clearTimeout(clock);
  }, [mark]);
  useEffect(() => {
    mine.current.here = true;
    return () => void (mine.current.here = false);
  }, []);
  return { run, error, again: fetchRun };
}

/**
 * @param {{run: Run, heading: {current: HTMLElement | null}, node: import("../shared/types.js").Node | null, k:
 *   number}} props
 */
function Head({ run, heading, node, k }) {
  const acts = useRef(/** @type {HTMLElement | null} */ (null));
  useOneStop(acts, ":scope > button, :scope > .menu > button");
  const by =
    run.cancelled_by && (/ (hung up|stops)$/.test(run.cancelled_by) ? run.cancelled_by : `by ${run.cancelled_by}`);
  const words = listed(stateWords(markOf(run)), run.state !== "failed" && run.where, by);
  const workflow = fileOf(run.nodes.find(fileOf));
  const tryAgain =
    workflow && !run.private && run.asked
      ? addressOf("workflows", workflow.split("/"), { user: run.user, pane: "try", try: run.id })
      : "";
  useKeys({ t: () => tryAgain !== "" && go(tryAgain) });
  const opens = fileOf(node) || workflow;
  return html`<div class="head">${
    listFolded.value &&
    html`<button type="button" class="unfold" onClick=${turnList}
    title="Show the list of runs ( [ )" aria-label="Show the list of runs">»</button>`
  }<h1 tabindex="-1" ref=${heading}><span>${run.name ?? run.path}</span>
    ${otherWorkflow(run) && html` <span class="dim">${otherWorkflow(run)}</span>`}</h1>
    <span class=${`state ${markOf(run)}`}><${Mark} state=${markOf(run)} plain />${words}</span>${
      run.private && html`<${Lock} />`
    }<${RepeatOf} run=${run} />
    <div class="acts" ref=${acts} role="toolbar" aria-label="What to do with this run"><${CopyMenu} run=${run}
      node=${node} k=${k} />
      ${
        opens &&
        html`<button type="button" onClick=${() =>
          go(addressOf("workflows", opens.split("/"), { user: run.user, node: node?.number }))}>Open workflow</button>`
      }
      <${Keep} run=${run} />
      <${RunAgain} run=${run} edit=${tryAgain ? () => go(tryAgain) : null} />
      ${isActive(run) && html`<${Cancel} run=${run} />`}</div></div>`;
}

/** @param {{run: Run}} props */
function Cancel({ run }) {
  const [busy, setBusy] = useState(false);
  const [asks, setAsks] = useState(false);
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const may = hasRight("act");
  const cancel = async () => {
    setAsks(false);
    if (!may || busy) return;
    setBusy(true);
    await ask(`runs/${encodeURIComponent(run.id)}/cancel`, { method: "POST", body: {} }).catch(setError);
    setBusy(false);
  };
  useKeys({ c: () => may && setAsks(true) });
  return html`<button type="button" class="danger" aria-disabled=${!may || busy} aria-describedby=${
    may ? null : "nocancel"
  } title=${may ? null : NO_RIGHT} onClick=${cancel}>Cancel</button>
    ${!may && html`<span class="unseen" id="nocancel">${NO_RIGHT}</span>`}
    ${error && html`<span class="trouble" role="alert">${error.message}</span>`}
    ${
      asks &&
      html`<${Dialog} title="Cancel this run?" close=${() => setAsks(false)}><p>
        ${run.user || run.path} › ${run.workflow || "not started"}: the client's answer ends here.</p>
      <p class="acts"><button type="button" class="danger" onClick=${cancel}>Cancel the run</button>
      <button type="button" onClick=${() => setAsks(false)}>Let it run</button></p><//>`
    }`;
}

const NO_RIGHT = needsKey("Cancelling");

/** @param {{run: Run}} props */
function Summary({ run }) {
  const active = isActive(run);
  const took = grown(run, useNow(active)).took_s;
  const { to_answer: toAnswer, after } = run.all_nodes;
  const tokens = run.tokens !== null && `${run.about ? "about " : ""}${number(run.tokens)}`;
  const facts = [
    ["took", `${seconds(took)}${active ? " so far" : ""}`, `arrived ${moment(run.at)}`],
    ["first token", run.first_s !== null && seconds(run.first_s)],
    ["tokens", tokens && listed(tokens, run.rate !== null && `${number(run.rate)} a second`)],
    ["all nodes", usedWords(run.all_nodes)],
    ["to the answer", (after.calls ?? 0) > 0 && usedWords(toAnswer)],
    ["after it", usedWords(after), "what nodes behind the answer used; a client is told only of its answer"],
    ["cost", run.cost && costWords(run.cost)],
    ["came by", listed(run.front, run.front && (run.stream ? "streamed" : "whole"), run.task && `${run.task} task`)],
    ["status", (run.status ?? 0) >= 400 && run.status],
  ];
  return html`<${Facts} look="sum" facts=${facts} />`;
}

/** @param {{run: Run}} props */
function StoodOut({ run }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [all, setAll] = useState(false);
  useOneStop(box, "button, a");
  if (!run.stood_out.length) return null;
  const names = run.nodes.flatMap(({ title, group, endpoint, calls }) => [
    title,
    group ?? "",
    endpoint ?? "",
    ...calls.map((call) => call.endpoint ?? ""),
  ]);
  const bad = run.stood_out.some(({ level }) => level === "bad");
  const lines = timesSaid(run.stood_out);
  const shown = all ? lines : lines.slice(0, MOST_LINES);
  return html`<section aria-label="What stood out"><ul class=${bad ? "notes bad" : "notes"} ref=${box}>
    ${shown.map(
      ({ text, i, rule, times }) =>
        html`<li key=${rule + text}>${withNames(unbroken(text), names).map((piece, at) =>
          at % 2 ? html`<b>${piece}</b>` : piece,
        )}${
          times > 1 &&
          html` <span
        class="dim">${number(times)} times</span>`
        }${
          run.nodes[i ?? -1] &&
          html` <button
        type="button" class="plain" onClick=${() => turn({ node: i, call: null })}>show</button>`
        }${PAGES[rule] && html` <a href=${addressOf("help", [PAGES[rule]])}>what helps</a>`}</li>`,
    )}
    ${
      lines.length > shown.length &&
      html`<li><button type="button" class="plain" onClick=${() => setAll(true)}>
      ${number(lines.length - shown.length)} more</button></li>`
    }</ul></section>`;
}
