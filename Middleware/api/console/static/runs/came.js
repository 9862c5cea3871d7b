// @ts-check
// The tab "Came": what the model said, and what each rule took away from it.
import { html, useRef, useState } from "../vendor/preact.js";
import { useTold } from "../shared/asked.js";
import { piecesOf } from "./cleaning.js";
import { FileLink, Missing } from "../shared/parts.js";
import { ask } from "../shared/server.js";
import { Box, NO_CALL, Switches, TextBox, Whole, useText } from "./texts.js";
import { counted, number } from "../shared/words.js";

/** @typedef {import("../shared/types.js").Call} Call @typedef {import("../shared/types.js").Run} Run */
/**
 * @typedef {{rule: string, text: string, said: string, settings: {place: string, key: string, value: string,
 *   file: string | null}[]}} Step
 */

const TOO_LONG = "The answer is too long to show what was removed. Raw and Cleaned show the parts that were kept.";
/** Rules that take the model's thoughts out of its text. */
const OF_THOUGHTS = ["thinking_literal", "thinking_names"];
const NO_STEPS = { agrees: false, steps: /** @type {Step[]} */ ([]) };

/** @param {{run: Run, node: import("../shared/types.js").Node, call: Call | null, none: string}} props */
export function Came({ run, node, call, none }) {
  const [view, setView] = useState("both");
  const raw = useText(run.id, call?.raw ?? null);
  const cleaned = useText(run.id, call?.cleaned ?? null);
  const said = raw.data ? raw.data.head + raw.data.tail : "";
  const beside = (call?.thoughts.length ? call.thoughts : node.thoughts).filter(
    ({ start }) => !start || !said.includes(start.trim()),
  );
  if (!call) return NO_CALL;
  const boxes = beside.map(
    (one) =>
      html`<${Box} key=${one.ref} kind="thought" title="Thoughts that came beside the text" right=${counted(
        one.chars,
        "character",
      )}><${TextBox} id=${run.id} reference=${one} none=${none} /><//>`,
  );
  if (!call.raw)
    return html`${boxes}${call.error && html`<p class="notes bad">${call.error}</p>`}<p class="dim">
      ${
        call.ended_s === null && !run.private
          ? "Nothing is here yet: the raw text is told when the call has ended."
          : call.error
            ? "Nothing came."
            : none
      }</p>`;
  if (!raw.data || (call.cleaned && !cleaned.data && !cleaned.error))
    return html`<${Missing} error=${raw.error} again=${raw.again} rows=${4} />`;
  const counts = call.cleaned
    ? `${number(call.raw.chars)} in, ${number(call.cleaned.chars)} out (characters)`
    : counted(call.raw.chars, "character");
  const shown = call.cleaned ? view : "raw";
  return html`<${Switches} label="What is shown" views=${call.cleaned ? [["both"], ["raw"], ["cleaned"]] : []}
    shown=${shown} choose=${setView}>${counts}<//>
    ${boxes}
    <div class="msg assistant">${
      shown === "both" && cleaned.data
        ? html`<${Both} run=${run} node=${node} call=${call}
      raw=${raw.data} cleaned=${cleaned.data} />`
        : html`<${Whole} text=${(shown === "cleaned" && cleaned.data) || raw.data} />`
    }</div>
    ${call.error && html`<p class="notes bad">${call.error}</p>`}`;
}

/**
 * @param {{run: Run, node: import("../shared/types.js").Node, call: Call, raw: import("../shared/types.js").Text,
 *   cleaned: import("../shared/types.js").Text}} props
 */
function Both({ run, node, call, raw, cleaned }) {
  const same = raw.head === cleaned.head && raw.tail === cleaned.tail && raw.chars === cleaned.chars;
  const cut = raw.left_out > 0 || cleaned.left_out > 0;
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const { data, error, again } = usePieces(run, node, call, same || cut ? "" : raw.head, cleaned.head);
  if (same || cut)
    return html`<h2>What the model said<span>${same ? "nothing was removed" : ""}</span></h2>
      ${cut && !same && html`<p class="dim pad">${TOO_LONG}</p>`}<${Whole} text=${raw} />`;
  if (!data) return html`<${Missing} error=${error} again=${again} rows=${4} />`;
  const { pieces, steps } = data;
  return html`<h2>What the model said, and what was taken away<span>${steps.length ? ""
    : "the rules that did it are unknown"}</span></h2>
    ${steps.length > 0 && html`<${Taken} pieces=${pieces} steps=${steps} box=${box} />`}
    <div class="said pre" tabindex="0" ref=${box}>${pieces.map(({ text, kind, rule }, at) => {
      const by =
        rule && (pieces[at + 1]?.rule !== rule || pieces[at + 1]?.kind === "kept")
          ? html`<a class="by" href=${`#/help/rules/${encodeURIComponent(rule)}`}>${rule}</a>`
          : "";
      if (kind === "gone" && text.trim() && OF_THOUGHTS.includes(rule)) return html`<${Thought} text=${text} />${by}`;
      if (kind === "gone") return html`<del class=${text.trim() ? "" : "space"}>${visible(text)}</del>${by}`;
      return kind === "added" ? html`<ins>${text}</ins>${by}` : text;
    })}</div>`;
}

/**
 * What each rule took, and the settings that turned it on; a click leads to its place in the text.
 * @param {{pieces: import("./cleaning.js").Piece[], steps: Step[], box: {current: HTMLElement | null}}} props
 */
function Taken({ pieces, steps, box }) {
  const chars = (/** @type {string} */ by, /** @type {string} */ what) =>
    pieces.reduce((sum, { rule, kind, text }) => sum + (rule === by && kind === what ? text.length : 0), 0);
  const show = (/** @type {string} */ rule) => {
    const name = /** @type {HTMLElement | null} */ (box.current?.querySelector(`.by[href$="/${rule}"]`));
    name?.focus();
    name?.scrollIntoView({ block: "center" });
  };
  return html`<ol class="taken">${steps.map(({ rule, said, settings }) => {
    const added = chars(rule, "added");
    const [{ place, file }] = [...settings, { place: "", file: "" }];
    return html`<li><button type="button" class="link" title="show its place in the text"
      onClick=${() => show(rule)}>${said}</button><b>${counted(chars(rule, "gone"), "character")}${
        added > 0 && `, ${added} added`}</b>
      <p class="dim">${rule}${settings.map(({ key, value }, at) => html`${at ? ", " : ": "}<code>${key}: ${
        value}</code>`)}${place && html` in ${place === "node" ? "workflow" : place} ${
          file && html`<${FileLink} path=${file} />`}`}</p></li>`;
  })}</ol>`;
}

/** Folded: what a model thought is no part of its answer. @param {{text: string}} props */
const Thought = ({ text }) =>
  html`<details class="thoughts"><summary>thought, ${counted(text.length, "character")}</summary>${text}</details>`;

/** Line ends alone could not be seen struck through. @param {string} text */
const visible = (text) =>
  /^\s+$/.test(text) ? text.replace(/\r?\n/g, "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣") : text;

/**
 * @param {Run} run
 * @param {import("../shared/types.js").Node} node
 * @param {Call} call
 * @param {string} raw "": nothing to find
 * @param {string} cleaned
 */
function usePieces(run, node, call, raw, cleaned) {
  return useTold(raw && `${run.id}/${node.i}/${call.k}/${raw.length}/${cleaned.length}`, async () => {
    const path = `runs/${encodeURIComponent(run.id)}/nodes/${node.i}/calls/${call.k}/cleaning`;
    const [told, { diffWordsWithSpace }] = await Promise.all([
      call.has_cleaning ? ask(path) : NO_STEPS,
      import("../vendor/diff.js"),
    ]);
    const steps = told.agrees ? told.steps : [];
    return { pieces: piecesOf(raw, steps.length ? steps : [{ rule: "", text: cleaned }], diffWordsWithSpace), steps };
  });
}
