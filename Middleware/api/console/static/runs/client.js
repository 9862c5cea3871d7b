// @ts-check
// The first row of a run and the one where the client has its answer: what it asked, and what it got, live while that
// goes out.
import { html, useEffect, useState } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { Facts, Missing } from "../shared/parts.js";
import { isActive } from "../shared/run_state.js";
import { Parts, useSent } from "./sent.js";
import { Box, TextBox, Whole } from "./texts.js";
import { counted, costWords, number, seconds } from "../shared/words.js";

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

/** @param {{run: Run, none: string, again: () => void}} props `none`: why there is no text */
export function Answer({ run, none, again }) {
  useGrowth(run.state === "answering", again);
  const text = run.answer;
  const node = run.nodes.find(({ answers }) => answers);
  const { raw = null, cleaned = null } = node?.calls.at(-1) ?? {};
  const removed = raw && cleaned ? raw.chars - cleaned.chars : 0;
  const facts = [
    ["ended by", run.finish],
    ["tokens", run.tokens !== null && `${run.about ? "about " : ""}${number(run.tokens)}`],
    ["first token", run.first_s !== null && seconds(run.first_s)],
    ["cost", run.cost && costWords(run.cost)],
    [
      "cleaned away",
      text &&
        run.state === "done" &&
        removed > 0 &&
        html`<a href=${addressOf("runs", [run.id], { node: node?.i ?? 0, tab: "came" })}>${counted(removed,
          "character")}</a>`,
    ],
  ];
  return html`<${Facts} look="sum" facts=${facts} />
    ${run.error && html`<p class="notes bad">${run.error}</p>`}
    ${
      text
        ? html`<${Box} kind="assistant" title=${
            isActive(run) && run.state !== "finishing" ? "The answer so far" : "What the client got"
          } right=${counted(text.chars, "character")}><${TextBox} id=${run.id}
              reference=${text} none="" /><//>`
        : !run.error && html`<p class="dim">${isActive(run) && !run.private ? "There is no text yet." : none}</p>`
    }`;
}

/** While an answer goes out, it is asked for once a second, as long as it is looked at.
 * @param {boolean} grows @param {() => void} again */
function useGrowth(grows, again) {
  const [beat, setBeat] = useState(0);
  useEffect(() => {
    const clock = grows ? setInterval(() => document.hidden || setBeat((was) => was + 1), 1000) : 0;
    return () => clearInterval(clock);
  }, [grows]);
  useEffect(() => {
    if (beat) again();
  }, [beat]);
}
