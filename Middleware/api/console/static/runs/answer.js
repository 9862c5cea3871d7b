// @ts-check
// The row of a run where the client has its answer: what it got, live while it goes out.
import { html, useEffect, useState } from "../vendor/preact.js";
import { Facts } from "../shared/parts.js";
import { addressOf } from "../shared/address.js";
import { isActive } from "../shared/run_state.js";
import { Box, TextBox } from "./texts.js";
import { counted, costWords, number, seconds } from "../shared/words.js";

/** @typedef {import("../shared/types.js").Run} Run */

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
