// @ts-check
// The first row of a run: what the client asked.
import { html } from "../vendor/preact.js";
import { Facts, Missing } from "../shared/parts.js";
import { Parts, useSent } from "./sent.js";
import { Whole } from "./texts.js";
import { counted } from "../shared/words.js";

/** @typedef {import("../shared/types.js").Run} Run */

/** @param {{run: Run, none: string}} props `none`: why there is no text */
export function Request({ run, none }) {
  const facts = [
    ["model", run.model],
    ["came by", run.front],
    ["to", html`<code>${run.path}</code>`],
    ["answer", run.front && (run.stream ? "streamed" : "in one piece")],
    ["task", run.task],
  ];
  return html`<${Facts} look="sum" facts=${facts} /><${Body} run=${run} none=${none} />`;
}

/** @param {{run: Run, none: string}} props */
function Body({ run, none }) {
  const { data: text, error, again, sent } = useSent(run.id, run.asked);
  if (!run.asked) return html`<p class="dim">${none}</p>`;
  if (!text) return html`<${Missing} error=${error} again=${again} rows=${4} />`;
  return html`<p class="dim">as the client sent it, ${counted(text.chars, "character")}</p>
    ${sent ? html`<${Parts} sent=${sent} left=${null} />` : html`<div class="msg"><${Whole} text=${text} /></div>`}`;
}
