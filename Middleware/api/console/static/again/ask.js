// @ts-check
// Ask again: one call of a model, edited, sent one or several times; the answers beside each other.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { useAsked, useNow, useStopper } from "../shared/asked.js";
import { place, useUnsaved } from "../shared/place.js";
import { Missing } from "../shared/parts.js";
import { opened, readEvents, runs } from "../shared/server.js";
import { clock, counted, listed, seconds } from "../shared/words.js";
import { ASK } from "../runs/run_list.js";
import { TextBox, useText } from "../runs/texts.js";
import { saidIn } from "../workflows/said.js";
import { callIn, editsOf, textOfMessage, withText } from "./calls.js";

/**
 * @typedef {import("../shared/types.js").Run} Run
 * @typedef {import("./calls.js").Call} Call
 * @typedef {{n: number, id: string, state: "waits" | "answers" | "done" | "stopped" | "failed", text: string, thought:
 *   string, error: string, begun: number, firstS: number | null, tookS: number | null, edited: string}} Answer
 *   `begun`: when it was sent, by the page's clock in ms; 0: not yet; `edited`: the names of what was
 */

/** A browser gives one host six connections, and one of them is the stream of events. */
const AT_ONCE = 3;
const MOST = 5;
/** Of the messages so many stand open, from the newest on. */
const OPEN = 3;

/** @param {{id: string, i: number, k: number}} props */
export function AskAgain({ id, i, k }) {
  const told = useAsked(`runs/${encodeURIComponent(id)}`);
  const run = /** @type {Run | null} */ (told.data);
  const call = run?.nodes[i]?.calls[k] ?? null;
  const text = useText(id, call?.body ?? null);
  useEffect(() => void (document.title = "Ask again - Headrace"), []);
  const back = html`<a class="wayback" href=${addressOf("runs", [id], { node: i, call: k, tab: "sent",
    ...Object.fromEntries(place.value.query) })}>‹ The run</a>`;
  const frame = (/** @type {unknown} */ inner) => html`<article class="compare" aria-label="Ask again">${back}
    <h1 tabindex="-1">Ask again</h1>${inner}</article>`;
  if (!run) return frame(html`<${Missing} error=${told.error} again=${told.again} rows=${6} />`);
  const why = whyNot(run, call);
  if (why || !call) return frame(html`<p class="notes">${why}</p>`);
  if (!text.data) return frame(html`<${Missing} error=${text.error} again=${text.again} rows=${6} />`);
  const was = callIn(text.data.head);
  if (!was) return frame(html`<p class="notes">This call can't be read as a call of a model.</p>`);
  const { number, title, type, workflow } = run.nodes[i];
  return frame(html`<p class="dim"><b>${number} ${title || type}</b> of ${run.name ?? workflow}, ${clock(run.at)}:${" "}
    ${listed(call.model, call.endpoint && `at ${call.endpoint}`)}. Nothing else of the workflow runs.</p>
    <${Form} run=${run} i=${i} k=${k} was=${was} />`);
}

/** @param {Run} run @param {import("../shared/types.js").Call | null} call */
function whyNot(run, call) {
  if (run.private) return "This run is private, so nothing was kept that could be sent again.";
  if (!call) return "There is no such call.";
  if (call.kind !== "model") return "This call asked no model.";
  if (!call.body) return "What was sent is not kept.";
  return call.body.left_out ? "What was sent was too long to be kept whole." : "";
}

/** @param {{run: Run, i: number, k: number, was: Call}} props */
function Form({ run, i, k, was }) {
  const node = run.nodes[i];
  const call = node.calls[k];
  const names = useAsked("names", 0, { user: run.user, path: node.workflow });
  const [now, setNow] = useState(was);
  const [endpoint, setEndpoint] = useState(call.endpoint ?? "");
  const [preset, setPreset] = useState(node.preset ?? "");
  const [times, setTimes] = useState(1);
  const { answers, busy, send, stop } = useAnswers();
  const asked = useRef(was);
  useUnsaved(() => busy || JSON.stringify(now) !== JSON.stringify(asked.current));
  const then = useText(run.id, call.cleaned ?? call.raw);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const edits = {
      ...editsOf(was, now),
      ...(endpoint === (call.endpoint ?? "") ? {} : { endpoint }),
      ...(preset === (node.preset ?? "") ? {} : { preset }),
    };
    if (busy) return;
    asked.current = now;
    const own = (now.messages ?? []).flatMap((message, at) => textOfMessage(message)
      === textOfMessage((was.messages ?? [])[at]) ? [] : [`${at + 1} ${message.role}`]);
    const names = Object.keys(edits).flatMap((name) => (name === "messages" ? own : name));
    send({ run: run.id, node: i, call: k, ...edits }, times, names.join(" and "));
  };
  const choice = (
    /** @type {string} */ label,
    /** @type {string} */ value,
    /** @type {string[]} */ known,
    /** @type {(name: string) => void} */ change,
  ) => html`<label>${label} <select value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
      ${[...new Set([value, ...known])].map((name) => html`<option key=${name} value=${name} selected=${name === value}>
      ${name || "none"}</option>`)}</select></label>`;
  return html`<form class="askform" onSubmit=${submit}>
      <p class="acts">${choice("Endpoint", endpoint, names.data?.endpoints ?? [], setEndpoint)}
        ${choice("Preset", preset, names.data?.presets ?? [], setPreset)}
        <label>How often <input type="number" min="1" max=${MOST} value=${times}
          onInput=${(/** @type {any} */ event) =>
            setTimes(Math.min(MOST, Math.max(1, Number(event.target.value) || 1)))} /></label></p>
      ${was.messages ? html`<${Messages} was=${was} now=${now} change=${setNow} />`
        : html`<${Text} title="prompt" text=${now.prompt} was=${was.prompt}
          change=${(/** @type {string} */ prompt) => setNow({ ...now, prompt })} />`}
      <details><summary>Samplers</summary><div class="samplerform">${now.samplers.map(([name, value], at) => html`<label
        key=${name}>${name} <input value=${value} onInput=${(/** @type {any} */ event) => setNow({ ...now,
          samplers: now.samplers.with(at, [name, event.target.value]) })} /></label>`)}
        <p class="dim">An empty field takes a sampler away.</p></div></details>
      <p class="acts"><button class="main" disabled=${busy}>Ask</button>
        <button type="button" disabled=${!busy} onClick=${stop}>Stop</button></p></form>
    <div class="answers" aria-live="polite" aria-busy=${busy}>${answers.map((one) => html`<${Answered} key=${one.n}
      ...${one} then=${then.data} />`)}</div>
    <section class="msg assistant" aria-label="The answer of then"><h2>The answer of then
      ${call.ended_s !== null && call.sent_s !== null && html`<span class="dim">took ${seconds(call.ended_s
        - call.sent_s)}</span>`}</h2><${TextBox} id=${run.id}
      reference=${call.cleaned ?? call.raw} none="There is none." /></section>`;
}

/** @param {{was: Call, now: Call, change: (now: Call) => void}} props */
function Messages({ was, now, change }) {
  const all = now.messages ?? [];
  const older = Math.max(0, all.length - OPEN);
  const box = (/** @type {import("./calls.js").Message} */ message, /** @type {number} */ at) => html`<${Text} key=${at}
    title=${`${at + 1} ${message.role}`} text=${textOfMessage(message)} was=${textOfMessage((was.messages ?? [])[at])}
    change=${(/** @type {string} */ text) => change({ ...now, messages: all.with(at, withText(message, text)) })}
    reset=${() => change({ ...now, messages: all.with(at, (was.messages ?? [])[at]) })} />`;
  return html`${older > 0 && html`<details><summary>${counted(older, "older message")}</summary>
    ${all.slice(0, older).map(box)}</details>`}${all.slice(older).map((message, at) => box(message, at + older))}`;
}

/** @param {{title: string, text: string, was: string, change: (text: string) => void, reset?: () => void}} props */
function Text({ title, text, was, change, reset }) {
  const edited = text !== was;
  return html`<div class=${edited ? "say edited" : "say"}><div class="sayhead"><span>${title}</span>
    ${edited && html`<b>edited</b> <button type="button" class="plain" onClick=${() => (reset ? reset()
      : change(was))}>As it was</button>`}</div>
    <textarea aria-label=${title} rows=${Math.min(Math.max(text.split("\n").length, 2), 14)} value=${text}
      onInput=${(/** @type {any} */ event) => change(event.target.value)}></textarea></div>`;
}

/** @param {Answer & {then: import("../shared/types.js").Text | null}} props `then`: what the call gave in the run */
function Answered({ n, id, state, text, thought, error, begun, firstS, tookS, edited, then }) {
  const told = runs.value.get(id);
  const since = useNow(begun > 0 && tookS === null) - begun;
  const line = [...runs.value.values()].find((run) => run.path === ASK && run.state === "waiting");
  const waits = begun && line ? `waits, ${line.short}` : "waits";
  const tokens = told?.tokens ?? null;
  const facts = [
    told && clock(told.at),
    edited && `${edited} edited`,
    firstS !== null && `first ${seconds(told?.first_s ?? firstS)}`,
    tookS !== null ? `took ${seconds(told?.client_s ?? tookS)}` : begun > 0 && seconds(Math.max(0, since) / 1000),
    tokens !== null && counted(tokens, "token"),
  ];
  const same = state === "done" && then && !then.left_out && html`<b>${text === then.head ? "same as then"
    : "another answer than then"}</b> `;
  const said = listed(state === "waits" ? waits : state, ...facts);
  return html`<div class="msg assistant"><h3>${n} ${same}<span class="dim">${said}</span>
    ${id && html` <a href=${addressOf("runs", [id], { node: 0, tab: "came" })}>its run</a>`}</h3>
    ${thought && html`<details><summary>Thoughts</summary><pre>${thought}</pre></details>`}
    <pre tabindex="0">${text}</pre>${error && html`<p class="notes bad" role="alert">${error}</p>`}</div>`;
}

/** Sends one body several times, at most AT_ONCE at once, the rest as they end; earlier answers stay. */
function useAnswers() {
  const [answers, setAnswers] = useState(/** @type {Answer[]} */ ([]));
  const { stop, begin } = useStopper();
  const put = (/** @type {number} */ n, /** @type {(was: Answer) => Partial<Answer>} */ part) =>
    setAnswers((all) => all.map((one) => (one.n === n ? { ...one, ...part(one) } : one)));
  const one = async (/** @type {number} */ n, /** @type {object} */ body, /** @type {AbortSignal} */ signal) => {
    const begun = performance.now();
    const since = () => (performance.now() - begun) / 1000;
    put(n, () => ({ begun }));
    try {
      const response = await opened("ask", { method: "POST", body, signal });
      put(n, () => ({ state: "answers", id: response.headers.get("X-Request-Id") ?? "" }));
      await readEvents(response, (data) => {
        const { text, thought, error } = saidIn(data);
        put(n, (was) => ({
          text: was.text + text,
          thought: was.thought + thought,
          error: error || was.error,
          firstS: was.firstS ?? (text ? since() : null),
        }));
      });
      put(n, (was) => ({ state: was.error ? "failed" : "done", tookS: since() }));
    } catch (reason) {
      const error = signal.aborted ? "" : /** @type {Error} */ (reason).message;
      put(n, () => ({ state: signal.aborted ? "stopped" : "failed", error, tookS: since() }));
    }
  };
  const send = (/** @type {object} */ body, /** @type {number} */ times, /** @type {string} */ edited) => {
    const signal = begin();
    const left = Array.from({ length: times }, (_, at) => answers.length + at + 1);
    const made = left.map((n) => /** @type {Answer} */ ({ n, id: "", state: "waits", text: "", thought: "", error: "",
      begun: 0, firstS: null, tookS: null, edited }));
    setAnswers((all) => [...all, ...made]);
    const work = async () => {
      for (let n = left.shift(); n !== undefined; n = left.shift()) await one(n, body, signal);
    };
    for (let lane = 0; lane < AT_ONCE; lane++) work();
  };
  const busy = answers.some(({ state }) => state === "waits" || state === "answers");
  return { answers, busy, send, stop };
}
