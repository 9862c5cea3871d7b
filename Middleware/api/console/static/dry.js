// @ts-check
// Dry run: what each node would send and write, without a model and without times. It calls no backend.
import { html, useEffect, useState } from "./vendor/preact.js";
import { Messages } from "./messages.js";
import { ask } from "./server.js";

/**
 * @typedef {{url: string, headers: Record<string, string>, body: unknown}} Sent
 * @typedef {{workflow: string, number: number, type: string, title: string, depth: number, answers: boolean,
 *   fields: Record<string, unknown>, sent: Sent[], notes: string[], output: string}} DryNode
 * @typedef {{nodes: DryNode[], error?: string | null}} Walk
 */

/** @param {{path: string, user: string, unsaved: () => string | null, close: () => void}} props `unsaved`: the text, when it differs from the file */
export function DryRun({ path, user, unsaved, close }) {
  const [messages, setMessages] = useState([{ role: "user", content: "Hello" }]);
  const [walk, setWalk] = useState(/** @type {Walk | null} */ (null));
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const [open, setOpen] = useState(0);
  const [ofDraft, setOfDraft] = useState(false);
  const run = async () => {
    const text = unsaved();
    setBusy(true);
    setError("");
    try {
      const told = await ask("dry-run", { method: "POST", body: { path, user, messages, ...(text === null ? {} : { text }) } });
      setWalk(told);
      setOfDraft(text !== null);
      setOpen((was) => Math.min(was, Math.max(told.nodes.length - 1, 0)));
    } catch (reason) {
      setError(/** @type {Error} */ (reason).message);
    }
    setBusy(false);
  };
  useEffect(() => void run(), [path, user]);
  return html`<section class="side-pane" aria-label="Dry run">
    <div class="edbar"><h2>Dry run</h2><span class="dim">no model is asked, nothing is written</span><button type="button" onClick=${close}>Back to the text</button></div>
    <div class="panebody">
      <details><summary>Messages</summary><${Messages} messages=${messages} change=${setMessages} /></details>
      <p class="acts"><button type="button" class="main" disabled=${busy} onClick=${run}>Walk it again</button>
        ${walk && html`<span class="dim" role="status">${walk.nodes.length} nodes walked, of ${ofDraft ? "the text that is not saved" : "the saved file"}</span>`}</p>
      ${error && html`<p class="notes bad" role="alert">${error}</p>`}
      ${walk?.error && html`<p class="notes bad" role="alert">${walk.error}</p>`}
      ${walk && walk.nodes.length > 0 && html`<ol class="fall dry" role="list" aria-label="Nodes walked">
        ${walk.nodes.map((node, at) => html`<li key=${at}><${Walked} node=${node} open=${at === open} turn=${() => setOpen(at === open ? -1 : at)} /></li>`)}
      </ol>`}
    </div>
  </section>`;
}

/** @param {{node: DryNode, open: boolean, turn: () => void}} props */
function Walked({ node, open, turn }) {
  const { number, title, type, depth, answers, sent, notes, fields, output } = node;
  return html`<button type="button" class="fallrow" style=${{ "--depth": depth }} aria-expanded=${String(open)} aria-current=${open ? "true" : undefined} onClick=${turn}>
      <span class="lab"><span class="n">${number}</span><span class="t">${title || type}</span>${answers && html`<span class="flag">answers</span>`}</span>
      <span class="dim what">${doing(node)}</span></button>
    ${open && html`<div class="drypart">
      ${notes.map((note) => html`<p class="prob warning">${note}</p>`)}
      ${sent.map((call) => html`<div class="msg"><h3>Would be sent<span>${call.url}</span></h3><pre tabindex="0">${headersOf(call.headers)}${"\n"}${JSON.stringify(call.body, null, 2)}</pre></div>`)}
      <div class="msg"><h3>Fields, filled<span>${type}</span></h3><pre tabindex="0">${JSON.stringify(fields, null, 2)}</pre></div>
      <div class="msg"><h3>Output</h3><pre tabindex="0">${output}</pre></div>
    </div>`}`;
}

/** What a node does, in a few words. @param {DryNode} node */
function doing({ type, title, sent, notes }) {
  const calls = sent.length === 1 ? "asks a model" : sent.length ? `asks a model ${sent.length} times` : "";
  return [title ? type : "", calls, ...notes].filter(Boolean).join(", ");
}

/** @param {Record<string, string>} headers */
const headersOf = (headers) => Object.entries(headers).map(([name, value]) => `${name}: ${value}\n`).join("");
