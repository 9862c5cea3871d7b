// @ts-check
// The tab "Sent": the body of a call as it left the process.
import { html, useMemo, useState } from "./vendor/preact.js";
import { Failed, Loading } from "./parts.js";
import { parsed, sentIn } from "./sent_parts.js";
import { JsonTree, Whole, useText } from "./texts.js";
import { counted, size } from "./words.js";

/** @typedef {import("./types.js").Call} Call @typedef {import("./types.js").Run} Run */

/** @param {{run: Run, call: Call | null, none: string}} props */
export function Sent({ run, call, none }) {
  const { text, error, again } = useText(run.id, call?.body ?? null);
  const [view, setView] = useState("");
  const whole = text && !text.left_out ? text.head : "";
  const sent = useMemo(() => (whole ? sentIn(whole) : null), [whole]);
  if (!call) return html`<p class="dim">This node asked no model and no other server.</p>`;
  if (!call.body) return html`<p class="dim">${none}</p>`;
  if (error && !text) return html`<${Failed} error=${error} again=${again} />`;
  if (!text) return html`<${Loading} rows=${4} />`;
  const shown = view || (sent ? "parts" : "body");
  const views = [...(sent ? [["parts", "Messages"]] : []), ["body", "JSON"], ...(whole && text.json ? [["tree", "Indented"]] : []), ...(sent?.prompt ? [["ends", "Line ends"]] : [])];
  return html`<div class="switches" role="group" aria-label="How it is shown">${views.length > 1 && views.map(([name, title]) => html`<button type="button" aria-pressed=${String(name === shown)} onClick=${() => setView(name)}>${title}</button>`)}
      <span class="dim">as sent to ${call.endpoint ?? "the server"}, ${counted(text.chars, "character")}</span></div>
    ${shown === "parts" && sent ? html`<${Parts} sent=${sent} />` : shown === "tree" ? html`<div class="msg code json"><${JsonTree} value=${parsed(whole)} /></div>`
      : html`<div class="msg"><${Whole} text=${shown === "ends" && sent?.prompt ? { ...text, head: sent.prompt.replaceAll("\n", "↵\n") } : text} /></div>`}`;
}

/** @param {{sent: import("./sent_parts.js").Sent}} props */
function Parts({ sent }) {
  return html`${sent.messages.map(({ role, text, pictures, calls }, at) => html`<div key=${at} class=${`msg ${role.split(",")[0]}`}>
      <h2>${role}<span>${counted(text.length, "character")}${pictures.length ? `, ${counted(pictures.length, "picture")}` : ""}</span></h2>
      ${text && html`<pre>${text}</pre>`}${calls && html`<pre class="calls">${calls}</pre>`}
      ${pictures.length > 0 && html`<p class="pictures">${pictures.map(({ type, bytes, src }) => html`<span>${src && html`<img src=${src} alt="" />`}<small>${type}${bytes === null ? ", not loaded" : `, ${size(bytes)}`}</small></span>`)}</p>`}
      ${!text && !calls && !pictures.length && html`<p class="dim pad">empty</p>`}</div>`)}
    ${sent.prompt !== null && html`<div class="msg user"><h2>prompt<span>${counted(sent.prompt.length, "character")}</span></h2><pre>${sent.prompt}</pre></div>`}
    ${sent.tools.length > 0 && html`<p class="samplers"><span class="dim">${counted(sent.tools.length, "tool")}</span> ${sent.tools.join(", ")}</p>`}
    ${sent.samplers.length > 0 && html`<dl class="samplers">${sent.samplers.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`}`;
}
