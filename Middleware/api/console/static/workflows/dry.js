// @ts-check
// Dry run: what each node would send and write, without a model and without times. It calls no backend.
import { html, useState } from "../vendor/preact.js";
import { useTold } from "../shared/asked.js";
import { Messages } from "./messages.js";
import { ask } from "../shared/server.js";
import { SidePane } from "./panes.js";
import { listed } from "../shared/words.js";

/**
 * @typedef {{url: string, headers: Record<string, string>, body: unknown}} Sent
 * @typedef {{workflow: string, number: number, type: string, title: string, depth: number, answers: boolean,
 *   fields: Record<string, unknown>, sent: Sent[], notes: string[], output: string}} DryNode
 * @typedef {{nodes: DryNode[], error?: string | null}} Walk
 */

/**
 * @param {{path: string, user: string, unsaved: () => string | undefined, close: () => void}} props `unsaved`: the
 *   text, when it differs from the file
 */
export function DryRun({ path, user, unsaved, close }) {
  const [messages, setMessages] = useState([{ role: "user", content: "Hello" }]);
  const [open, setOpen] = useState(0);
  const { data, error, again } = useTold(`${user} ${path}`, (signal) => {
    const text = unsaved();
    return ask("dry-run", { method: "POST", body: { path, user, messages, text }, signal }).then((walk) => ({
      .../** @type {Walk} */ (walk),
      ofDraft: text !== undefined,
    }));
  });
  const nodes = data?.nodes ?? [];
  const shown = Math.min(open, nodes.length - 1);
  return html`<${SidePane} title="Dry run" note="no model is called and nothing is written" close=${close}>
    <details><summary>Messages</summary><${Messages} messages=${messages} change=${setMessages} /></details>
    <p class="acts"><button type="button" class="main" onClick=${again}>Run it again</button>
      ${data && html`<span class="dim" role="status">${nodes.length} nodes from ${data.ofDraft ? "the unsaved text"
        : "the saved file"}</span>`}</p>
    ${[error?.message, data?.error].map((said) => said && html`<p class="notes bad" role="alert">${said}</p>`)}
    ${
      nodes.length > 0 &&
      html`<ol class="fall dry" role="list" aria-label="Nodes walked">
      ${nodes.map((node, at) => html`<li key=${at}><${Walked} node=${node} open=${at === shown}
        turn=${() => setOpen(at === shown ? -1 : at)} /></li>`)}
    </ol>`
    }
  <//>`;
}

/** A heading over what is told in its own words. @param {{title: string, of?: string, children: unknown}} props */
const Told = ({ title, of, children }) =>
  html`<div class="msg"><h3>${title}${of && html`<span>${of}</span>`}</h3><pre tabindex="0">${children}</pre></div>`;

/** @param {{node: DryNode, open: boolean, turn: () => void}} props */
function Walked({ node, open, turn }) {
  const { number, title, type, depth, answers, sent, notes, fields, output } = node;
  return html`<button type="button" class="fallrow" style=${{ "--depth": depth }} aria-expanded=${open}
    aria-current=${open || null} onClick=${turn}>
      <span class="lab"><span class="n">${number}</span><span class="t">${title || type}</span>${answers && html`<span
        class="flag">answers</span>`}</span>
      <span class="dim what">${doing(node)}</span></button>
    ${
      open &&
      html`<div class="drypart">
      ${notes.map((note) => html`<p class="prob warning">${note}</p>`)}
      ${sent.map(({ url, headers, body }) => html`<${Told} title="Would be sent" of=${url}>
      ${Object.entries(headers).map(([name, value]) => `${name}: ${value}\n`)}${"\n"}${indented(body)}<//>`)}
      <${Told} title="Fields, filled" of=${type}>${indented(fields)}<//>
      <${Told} title="Output">${output}<//>
    </div>`
    }`;
}

/** What a node does, in a few words. @param {DryNode} node */
function doing({ type, title, sent, notes }) {
  const calls = sent.length > 0 && (sent.length === 1 ? "asks a model" : `asks a model ${sent.length} times`);
  return listed(title && type, calls, ...notes);
}

/** @param {unknown} value */
const indented = (value) => JSON.stringify(value, null, 2);
