// @ts-check
// The head of the tab "Sent": how much of the prompt the server had, and where the prompt left the one before.
import { html } from "../vendor/preact.js";
import { useTold } from "../shared/asked.js";
import { leftWords, readingWords, reuseWords } from "./reuse_words.js";
import { ask } from "../shared/server.js";

/**
 * @typedef {import("../shared/types.js").Run} Run
 * @typedef {import("../shared/types.js").Node} Node
 * @typedef {import("../shared/types.js").Call} Call
 */

const NO_PLACE = { place: null };

/** @param {{run: Run, node: Node, call: Call}} props */
export function Reuse({ run, node, call }) {
  const { prompt } = call;
  const path = `runs/${encodeURIComponent(run.id)}/nodes/${node.i}/calls/${call.k}/left`;
  const { data } = useTold(prompt?.leaves && call.body ? path : "", () => ask(path).catch(() => NO_PLACE));
  if (!prompt) return null;
  const place = /** @type {import("../shared/types.js").LeftPlace | null} */ (data?.place ?? null);
  return html`<div class="reuse"><p><b>${reuseWords(prompt)}</b> <span class="dim">
    ${readingWords(call.prompt_s)} ${leftWords(prompt, place?.placeholder)}</span></p>
    ${
      place &&
      (place.before || place.differs || place.after) &&
      html`<p class="leftat"><${Words} place=${place} />
    </p>`
    }</div>`;
}

/** Without the space behind it. @param {"del" | "ins"} kind @param {string} text */
const marked = (kind, text) => html`<${kind}>${text.trimEnd()}<//>${text.slice(text.trimEnd().length)}`;

/**
 * The words around the place; what stood there before is struck through.
 * @param {{place: import("../shared/types.js").LeftPlace}} props
 */
function Words({ place: { exact, before, differs, after, was } }) {
  return html`${before}${was && marked("del", was)}${differs && marked("ins", differs)}${after}${
    !exact &&
    html` <span
    class="dim">It differs within the next 256 characters; the prompt before is no longer kept.</span>`
  }`;
}
