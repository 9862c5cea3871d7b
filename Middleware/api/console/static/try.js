// @ts-check
// Try it: a conversation is sent to what is saved, the answer streams in, and the run's waterfall stands beside it.
import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { Messages } from "./messages.js";
import { wasRouted } from "./run_list.js";
import { ask, eventReader, opened, runs, state } from "./server.js";
import { saidIn } from "./said.js";
import { messagesIn } from "./spoken.js";
import { Waterfall } from "./waterfall.js";

/**
 * @typedef {import("./workflow_types.js").Message} Message
 * @typedef {{text: string, thought: string, finish: string | null, error: string | null}} Said
 * @typedef {{path: string, user: string, from: string | null, unsaved: boolean, ran: (run: any) => void, close: () => void}} Props `from`: the run whose messages it begins with
 */

/** The key of a client: in the memory of this page alone. */
let keptKey = "";
/** @type {Message[] | null} what was written last, for the next look */
let keptMessages = null;

/** @type {Said} */
const SILENT = { text: "", thought: "", finish: null, error: null };

/** @param {Props} props */
export function TryIt({ path, user, from, unsaved, ran, close }) {
  const [messages, change] = useState(keptMessages ?? [{ role: "user", content: "" }]);
  const [route, setRoute] = useState(false);
  const [key, setKey] = useState(keptKey);
  const [asksKey, setAsksKey] = useState(keptKey !== "");
  const { said, id, busy, before, send, stop } = useTry(() => setAsksKey(true));
  const run = useRun(id || (busy ? newest(user, before.current) : ""), busy);
  const notes = useNotes(path, user);
  const [node, choose] = useState(/** @type {number | null} */ (null));
  keptMessages = messages;
  keptKey = key;
  useEffect(() => void (from && startWith(from, change, setRoute)), [from]);
  useEffect(() => void (run && ran(run)), [run]);
  const body = { user, path: route ? null : path, messages, ...(key ? { api_key: key } : {}) };
  const empty = !messages.some(({ content }) => content.trim());
  const mayAct = state.value?.rights.includes("act") ?? true;
  return html`<section class="side-pane" aria-label="Try it">
    <div class="edbar"><h2>Try it</h2><span class="dim">${unsaved ? "what is saved; unsaved text has the dry run" : "what is saved"}</span><button type="button" onClick=${close}>Back to the text</button></div>
    <div class="panebody trypane">
      <form class="ask" onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), busy || send(body))}>
        <label class="dim">runs <select aria-label="What runs" value=${route ? "route" : "file"} disabled=${busy} onChange=${(/** @type {any} */ event) => setRoute(event.target.value === "route")}>
          <option value="file">this workflow</option><option value="route">${user}'s own routing</option></select></label>
        <${Messages} messages=${messages} change=${change} off=${busy} />
        ${asksKey && html`<label class="keyfield">API key <input type="password" autocomplete="off" value=${key} onInput=${(/** @type {any} */ event) => setKey(event.target.value)} />
          <span class="dim">kept in the memory of this page alone</span></label>`}
        ${notes.length > 0 && html`<ul class="notes" aria-label="What it writes">${notes.map((note) => html`<li>${note}</li>`)}</ul>`}
        <p class="acts"><button class="main" disabled=${busy || empty || !mayAct} aria-describedby=${mayAct ? undefined : "noact"}>Send</button>
          <button type="button" disabled=${!busy} onClick=${stop}>Stop</button>
          ${!asksKey && html`<button type="button" class="plain" onClick=${() => setAsksKey(true)}>with an API key</button>`}
          ${!mayAct && html`<span class="dim" id="noact">Trying needs the console key, or a request from this machine.</span>`}</p>
      </form>
      <div class="tried" aria-live="polite" aria-busy=${String(busy)}>
        ${said && html`<${Answer} said=${said} busy=${busy} />`}
        ${run && html`<p class="acts dim">The run: <a href=${`#/runs/${encodeURIComponent(run.id)}`}>${run.id}</a></p><${Waterfall} run=${run} chosen=${node} choose=${choose} />`}
      </div>
    </div>
  </section>`;
}

/** @param {{said: Said, busy: boolean}} props */
function Answer({ said, busy }) {
  const { text, thought, finish, error } = said;
  return html`<div class="msg assistant"><h3>Answer<span>${busy ? "answering" : (finish ?? "")}</span></h3>
    ${thought && html`<details><summary>Thoughts</summary><pre>${thought}</pre></details>`}
    <pre class="answer">${text}</pre>${!text && !busy && !error && html`<p class="dim pad">The answer is empty.</p>`}</div>
    ${error && html`<p class="notes bad" role="alert">${error}</p>`}`;
}

/** Sends and reads the stream. @param {() => void} keyWanted */
function useTry(keyWanted) {
  const [said, setSaid] = useState(/** @type {Said | null} */ (null));
  const [id, setId] = useState("");
  const [busy, setBusy] = useState(false);
  const before = useRef(/** @type {ReadonlySet<string>} */ (new Set()));
  const stopper = useRef(/** @type {AbortController | null} */ (null));
  useEffect(() => () => stopper.current?.abort(), []);
  const send = async (/** @type {object} */ body) => {
    const mine = (stopper.current = new AbortController());
    setSaid(SILENT);
    setBusy(true);
    setId("");
    before.current = new Set(runs.value.keys());
    try {
      const response = await opened("try", { method: "POST", body, signal: mine.signal });
      setId(response.headers.get("X-Request-Id") ?? "");
      await readInto(response, setSaid);
    } catch (reason) {
      const error = /** @type {Error & {status?: number}} */ (reason);
      if (error.status === 401) keyWanted();
      setSaid((was) => ({ ...(was ?? SILENT), ...(mine.signal.aborted ? { finish: "stopped" } : { error: error.message }) }));
    }
    setBusy(false);
  };
  return { said, id, busy, before, send, stop: () => stopper.current?.abort() };
}

/** The run of a question whose answer has not begun: an event told of it. @param {string} user @param {ReadonlySet<string>} before those that were there when it was sent */
const newest = (user, before) =>
  [...runs.value.values()].filter((run) => run.front === "console" && run.user === user && !before.has(run.id)).sort((a, b) => b.at - a.at)[0]?.id ?? "";

/** @param {Response} response @param {(change: (was: Said | null) => Said) => void} tell */
async function readInto(response, tell) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  const events = eventReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const parts = events(decoder.decode(part.value, { stream: true })).map(({ data }) => saidIn(data));
    if (!parts.length) continue;
    tell((was) => parts.reduce((sum, { text, thought, finish, error }) => ({
      text: sum.text + text, thought: sum.thought + thought, finish: finish ?? sum.finish, error: error ?? sum.error }), was ?? SILENT));
  }
}

/** The run, asked for again when an event says that it changed, at most once a second. @param {string} id @param {boolean} busy */
function useRun(id, busy) {
  const [run, setRun] = useState(/** @type {any} */ (null));
  const seq = runs.value.get(id)?.seq;
  const last = useRef(0);
  useEffect(() => {
    if (!id) return setRun(null);
    const wait = Math.max(0, 1000 - (performance.now() - last.current));
    let here = true; // a late answer about another run is not shown
    const clock = setTimeout(() => {
      last.current = performance.now();
      ask(`runs/${encodeURIComponent(id)}`).then((told) => here && setRun({ ...told, heard: performance.now() }), () => here && setRun(null));
    }, busy ? wait : 50);
    return () => {
      here = false;
      clearTimeout(clock);
    };
  }, [id, seq, busy]);
  return run;
}

/** What the nodes would write, from a dry run. @param {string} path @param {string} user @returns {string[]} */
function useNotes(path, user) {
  const [notes, setNotes] = useState(/** @type {string[]} */ ([]));
  useEffect(() => {
    const stop = new AbortController();
    ask("dry-run", { method: "POST", body: { path, user }, signal: stop.signal }).then(
      ({ nodes }) => setNotes(notesOf(nodes)),
      () => setNotes([]),
    );
    return () => stop.abort();
  }, [path, user]);
  return notes;
}

/** What leaves the run besides its answer. @param {import("./dry.js").DryNode[]} nodes @returns {string[]} */
const notesOf = (nodes) =>
  nodes.flatMap(({ number, title, type, notes }) => notes.filter((note) => /^would /.test(note)).map((note) => `Node ${number} ${title || type} ${note}.`));

/** @param {string} run @param {(messages: Message[]) => void} change @param {(route: boolean) => void} setRoute */
async function startWith(run, change, setRoute) {
  ask(`runs/${encodeURIComponent(run)}`).then((told) => setRoute(wasRouted(told)), () => {});
  const asked = await ask(`runs/${encodeURIComponent(run)}/texts/asked`).catch(() => null);
  const messages = asked && !asked.left_out ? messagesIn(asked.head) : [];
  if (messages.length) change(messages);
}
