// @ts-check
// Try it: a conversation is sent to what is saved, the answer streams in, and the run's waterfall stands beside it.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { useStopper, useTold } from "../shared/asked.js";
import { useRun } from "../runs/run.js";
import { wasRouted } from "../runs/run_list.js";
import { ask, needsKey, opened, readEvents, runs, state } from "../shared/server.js";
import { NOTHING, outdatedIn, saidIn } from "./said.js";
import { Messages, SidePane } from "./panes.js";
import { messagesIn } from "../runs/spoken.js";
import { Waterfall } from "../runs/waterfall.js";

/**
 * @typedef {import("./workflow_types.js").Message} Message
 * @typedef {import("./said.js").Said & {id: string, busy: boolean, before: ReadonlySet<string>}} Turn
 *   what the answer says so far; `id`: of the run, empty until the answer begins; `before`: the runs that were there
 *   when it was sent
 * @typedef {{path: string, user: string, from: string | null, unsaved: boolean, ran: (run: any) => void, close: () =>
 *   void}} Props `from`: the run whose messages it begins with
 */

/** The key of a client: in the memory of this page alone. */
let keptKey = "";
/** What was written last, for the next look. @type {Message[]} */
let keptMessages = [{ role: "user", content: "" }];
/** Whether it was changed since it was sent or taken from a run. */
let isUnsent = false;
/** Written in Try alone: leaving the console loses it, whatever of it is shown. */
addEventListener("beforeunload", (event) => isUnsent && event.preventDefault());

/** @param {Props} props */
export function TryIt({ path, user, from, unsaved, ran, close }) {
  const [messages, show] = useState(keptMessages);
  const [route, setRoute] = useState(false);
  const [key, setKey] = useState(keptKey);
  const [asksKey, setAsksKey] = useState(keptKey !== "");
  const { turn, send, stop } = useTurn(() => setAsksKey(true));
  const walk = useTold(`${user} ${path}`, (signal) => ask("dry-run", { method: "POST", body: { path, user }, signal }));
  const notes = walk.data ? notesOf(walk.data.nodes) : [];
  keptMessages = messages;
  keptKey = key;
  const change = (/** @type {Message[]} */ written) => {
    isUnsent = written.some(({ content }) => content.trim());
    show(written);
  };
  useEffect(() => {
    if (!from || (isUnsent && !confirm("The messages in Try were not sent. Replace them by those of the run?"))) return;
    isUnsent = false;
    startWith(from, show, setRoute);
  }, [from]);
  const busy = turn?.busy ?? false;
  const run = turn && (turn.id || (busy && newest(user, turn.before)));
  const mayAct = state.value?.rights.includes("act") ?? true;
  const mayNot = busy || !mayAct || !messages.some(({ content }) => content.trim());
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (busy) return;
    isUnsent = false;
    send({ user, path: route ? null : path, messages, ...(key ? { api_key: key } : {}) });
  };
  return html`<${SidePane} title="Try it" note=${unsaved ? "what is saved; unsaved text has the dry run"
    : "what is saved"} look="trypane" back="Close" close=${close}>
    <form class="ask" onSubmit=${submit}>
      <label class="dim">runs <select aria-label="What runs" value=${route ? "route" : "file"} disabled=${busy}
        onChange=${(/** @type {any} */ event) => setRoute(event.target.value === "route")}>
        <option value="file">this workflow</option><option value="route">${user}'s own routing</option></select></label>
      <${Messages} messages=${messages} change=${change} off=${busy} />
      ${
        asksKey &&
        html`<label class="keyfield">API key <input type="password" autocomplete="off" value=${key}
          onInput=${(/** @type {any} */ event) => setKey(event.target.value)} />
        <span class="dim">kept in the memory of this page only</span></label>`
      }
      ${notes.length > 0 && html`<ul class="notes" aria-label="What it writes">${notes.map((note) => html`<li>${note}
      </li>`)}</ul>`}
      <p class="acts"><button class="main" disabled=${mayNot} aria-describedby=${mayAct ? null : "noact"}>Send</button>
        <button type="button" disabled=${!busy} onClick=${stop}>Stop</button>
        ${!asksKey && html`<button type="button" class="plain"
          onClick=${() => setAsksKey(true)}>with an API key</button>`}
        ${!mayAct && html`<span class="dim"
          id="noact">${needsKey("Trying a workflow")}</span>`}</p>
    </form>
    <div class="tried" aria-live="polite" aria-busy=${busy}>
      ${turn && html`<${Tried} key=${run || ""} turn=${turn} id=${run || ""} ran=${ran} />`}
    </div>
  <//>`;
}

/** @param {Turn} props */
function Answer({ text, thought, finish, error, busy }) {
  return html`<div class="msg assistant"><h3>Answer<span>${busy ? "answering" : finish}</span></h3>
    ${thought && html`<details><summary>Thoughts</summary><pre>${thought}</pre></details>`}
    <pre class="answer">${text}</pre>${!text && !busy && !error && html`<p class="dim pad">The answer is empty.</p>`}
    </div>
    ${error && html`<p class="notes bad" role="alert">${error}</p>`}`;
}

/** The answer, and its run where that is known. @param {{turn: Turn, id: string, ran: (run: any) => void}} props */
function Tried({ turn, id, ran }) {
  const [run, setRun] = useState(/** @type {any} */ (null));
  const old = outdatedIn(run);
  return html`${old.length > 0 && html`<ul class="notes bad" aria-label="This is not the saved file">
    ${old.map((text) => html`<li key=${text}>${text}</li>`)}</ul>`}
    <${Answer} ...${turn} />${id && html`<${Ran} id=${id} ran=${(/** @type {any} */ now) => (setRun(now),
      ran(now))} />`}`;
}

/** The run beside its answer. @param {{id: string, ran: (run: any) => void}} props */
function Ran({ id, ran }) {
  const { run } = useRun(id);
  const [node, choose] = useState(/** @type {number | null} */ (null));
  useEffect(() => void (run && ran(run)), [run]);
  return (
    run &&
    html`<p class="acts dim">The run: <a href=${`#/runs/${encodeURIComponent(id)}`}>${id}</a></p><${Waterfall}
      run=${run} chosen=${node} choose=${choose} ends=${false} />`
  );
}

/** Sends and reads the stream. @param {() => void} keyWanted */
function useTurn(keyWanted) {
  const [turn, setTurn] = useState(/** @type {Turn | null} */ (null));
  const { stop, begin } = useStopper();
  const change = (/** @type {Partial<Turn>} */ part) => setTurn((was) => was && { ...was, ...part });
  const send = async (/** @type {object} */ body) => {
    const signal = begin();
    setTurn({ ...NOTHING, id: "", busy: true, before: new Set(runs.value.keys()) });
    try {
      const response = await opened("try", { method: "POST", body, signal });
      change({ id: response.headers.get("X-Request-Id") ?? "" });
      await readEvents(response, (data) => {
        const { text, thought, finish, error } = saidIn(data);
        setTurn(
          (was) =>
            was && {
              ...was,
              text: was.text + text,
              thought: was.thought + thought,
              finish: finish || was.finish,
              error: error || was.error,
            },
        );
      });
    } catch (reason) {
      const error = /** @type {Error & {status?: number}} */ (reason);
      if (error.status === 401) keyWanted();
      change(signal.aborted ? { finish: "stopped" } : { error: error.message });
    }
    change({ busy: false });
  };
  return { turn, send, stop };
}

/**
 * The run of a question whose answer has not begun: an event told of it.
 * @param {string} user
 * @param {ReadonlySet<string>} before
 */
const newest = (user, before) =>
  [...runs.value.values()]
    .filter((run) => run.front === "console" && run.user === user && !before.has(run.id))
    .sort((a, b) => b.at - a.at)[0]?.id;

/** What leaves the run besides its answer. @param {import("./panes.js").DryNode[]} nodes @returns {string[]} */
const notesOf = (nodes) =>
  nodes.flatMap(({ number, title, type, notes }) =>
    notes.filter((note) => /^would /.test(note)).map((note) => `Node ${number} ${title || type} ${note}.`),
  );

/** @param {string} run @param {(messages: Message[]) => void} change @param {(route: boolean) => void} setRoute */
async function startWith(run, change, setRoute) {
  ask(`runs/${encodeURIComponent(run)}`).then(
    (told) => setRoute(wasRouted(told)),
    () => {},
  );
  const asked = await ask(`runs/${encodeURIComponent(run)}/texts/asked`).catch(() => null);
  const messages = asked && !asked.left_out ? messagesIn(asked.head) : [];
  if (messages.length) change(messages);
}
