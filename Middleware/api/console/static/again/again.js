// @ts-check
// The window "Run again": what is written, what one should know before, and the request itself.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { useTold } from "../shared/asked.js";
import { Dialog, Missing } from "../shared/parts.js";
import { go } from "../shared/place.js";
import { ask, opened } from "../shared/server.js";

/**
 * @typedef {import("../shared/types.js").Run} Run
 * @typedef {{node: number, title: string, notes: string[]}} Writes `node` 0: the times of the discussion's messages
 * @typedef {{may: boolean, why: string | null, writes: Writes[], told: string[]}} Told
 */

/** The key of a client: in the memory of this page alone. */
let keptKey = "";
/** The streams that are read to their end: a page that closes ends them. */
const reading = new Set();

/** @param {{run: Run, start: number | null, close: () => void}} props `start`: of a node; null: the whole run */
export function Again({ run, start, close }) {
  const path = `runs/${encodeURIComponent(run.id)}/again`;
  const query = /** @type {Record<string, string>} */ (start === null ? {} : { from: String(start) });
  const asked = useTold(`${path}?${start}`, (signal) => ask(path, { query, signal }));
  const told = /** @type {Told | null} */ (asked.data);
  const title = start === null ? "Run again" : `Run again from node ${start}`;
  return html`<${Dialog} title=${title} close=${close}>
    ${told ? html`<${Form} run=${run} start=${start} told=${told} close=${close} />` : html`<${Missing}
      error=${asked.error} again=${asked.again} rows=${3} />`}<//>`;
}

/** @param {{run: Run, start: number | null, told: Told, close: () => void}} props */
function Form({ run, start, told, close }) {
  const [boxes, setBoxes] = useState(/** @type {ReadonlySet<number>} */ (new Set()));
  const [key, setKey] = useState(keptKey);
  const [asksKey, setAsksKey] = useState(keptKey !== "" || told.told.some((one) => /key is not kept/.test(one)));
  const { busy, error, send, stop } = useSending(() => setAsksKey(true), close);
  keptKey = key;
  if (!told.may) return html`<p class="notes">${told.why}</p><p class="acts"><button type="button"
    onClick=${close}>Close</button></p>`;
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const body = { run: run.id, from: start, writes: [...boxes] };
    if (!busy) send({ ...body, ...(key ? { api_key: key } : {}) });
  };
  const turn = (/** @type {number} */ node) =>
    setBoxes((was) => new Set(was.has(node) ? [...was].filter((one) => one !== node) : [...was, node]));
  return html`<form class="again" onSubmit=${submit}>
    <p class="dim">${start === null
      ? "What the client sent is sent again, to the files as they are now."
      : "The nodes before it give what they gave. The others run with the files as they are now."}</p>
    ${told.told.length > 0 && html`<ul class="notes">${told.told.map((one) => html`<li>${one}</li>`)}</ul>`}
    ${told.writes.length > 0 && html`<fieldset disabled=${busy}><legend>These may write</legend>
      ${told.writes.map(({ node, title, notes }) => html`<label><input type="checkbox" checked=${boxes.has(node)}
        onChange=${() => turn(node)} /> <span>${node > 0 && html`<b>${node} ${title}</b> `}${notes.join("; ")}</span>
        </label>`)}
      <p class="dim">A node whose box is off does not run, and gives its old output.</p></fieldset>`}
    ${asksKey && html`<label class="keyfield">API key <input type="password" autocomplete="off" value=${key}
      onInput=${(/** @type {any} */ event) => setKey(event.target.value)} />
      <span class="dim">kept in the memory of this page only</span></label>`}
    ${error && html`<p class="notes bad" role="alert">${error}</p>`}
    <p class="acts"><button class="main" disabled=${busy}>Run again</button>
      <button type="button" onClick=${busy ? stop : close}>${busy ? "Stop" : "Cancel"}</button>
      ${busy && html`<span class="dim" role="status">waiting for its turn</span>`}</p></form>`;
}

/** Sends the request, and goes to its run as soon as that is known. @param {() => void} keyWanted @param {() => void}
 * close */
function useSending(keyWanted, close) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const stopper = useRef(/** @type {AbortController | null} */ (null));
  const gone = useRef(false);
  useEffect(() => () => void (gone.current || stopper.current?.abort()), []);
  const send = async (/** @type {object} */ body) => {
    const mine = (stopper.current = new AbortController());
    setBusy(true);
    setError("");
    try {
      const response = await opened("again", { method: "POST", body, signal: mine.signal });
      gone.current = true;
      readOn(response);
      close();
      go(addressOf("runs", [response.headers.get("X-Request-Id") ?? ""]));
    } catch (reason) {
      const failed = /** @type {Error & {status?: number}} */ (reason);
      if (failed.status === 401) keyWanted();
      setError(mine.signal.aborted ? "" : failed.message);
      setBusy(false);
    }
  };
  return { busy, error, send, stop: () => stopper.current?.abort() };
}

/** The answer is shown by its run; whoever asked must hear it out. @param {Response} response */
async function readOn(response) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  reading.add(reader);
  try {
    while (!(await reader.read()).done);
  } catch {
    // The server has gone; the page says so by itself.
  } finally {
    reading.delete(reader);
  }
}
