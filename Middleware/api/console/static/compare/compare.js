// @ts-check
// Two runs beside each other: facts, then node by node what was sent and what came, where it differs. And the bar that
// leads there.
import { html, useEffect } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { useAsked, useTold } from "../shared/asked.js";
import { useKeys } from "../shared/keys.js";
import { Empty, Missing } from "../shared/parts.js";
import { runs } from "../shared/server.js";
import { clock, counted, number, seconds } from "../shared/words.js";
import { changes } from "../runs/cleaning.js";
import { marked } from "../runs/columns.js";
import { sentIn } from "../runs/sent_parts.js";
import { textOf } from "../runs/texts.js";
import { folded, isSame, lastCall, pairName, pairsOf } from "./pairs.js";

/**
 * @typedef {import("../shared/types.js").Run} Run
 * @typedef {import("../shared/types.js").Ref} Ref
 * @typedef {import("./pairs.js").Pair} Pair
 * @typedef {{text: string, cut: boolean}} Side
 */

/** The bar at the foot of the list of runs: the two that are marked, or the marked one and the open one.
 * @param {{open: string}} props `open`: the id of a run that somebody opened; "": none */
export function CompareBar({ open }) {
  const clear = () => (marked.value = []);
  useKeys({ Escape: () => marked.value.length > 0 && (clear(), true) });
  const other = marked.value.some(({ id }) => id === open) ? undefined : runs.value.get(open);
  const chosen = [...marked.value, ...(other ? [other] : [])].slice(0, 2);
  const [first, second] = chosen.map(({ name, path, at }) => `${name ?? path} ${clock(at)}`);
  return html`<p class="comparebar" role="status"><span>${first} and ${second ?? "..."}</span>
    ${second ? html`<a class="go" href=${addressOf("compare", chosen.map(({ id }) => id))}>Compare</a>`
      : html`<span class="dim">open another run</span>`}
    <button type="button" class="plain" onClick=${clear}>Esc</button></p>`;
}

/** @param {{place: import("../shared/types.js").Place}} props */
export function Page({ place }) {
  const [a = "", b = ""] = place.parts;
  const one = useAsked(`runs/${encodeURIComponent(a)}`);
  const two = useAsked(`runs/${encodeURIComponent(b)}`);
  useEffect(() => void (document.title = "Compare - Headrace"), []);
  if (!a || !b)
    return html`<${Empty} title="Compare" sentence="Mark two runs in the list with m."><p>
      <a href="#/runs">Runs</a></p><//>`;
  if (!one.data || !two.data)
    return html`<article class="compare"><h1>Compare</h1><${Missing} error=${one.error ?? two.error}
      again=${() => (one.again(), two.again())} rows=${9} /></article>`;
  return html`<${Both} a=${/** @type {Run} */ (one.data)} b=${/** @type {Run} */ (two.data)} />`;
}

/** @param {{a: Run, b: Run}} props */
function Both({ a, b }) {
  const parts = folded(pairsOf(a.nodes, b.nodes));
  return html`<article class="compare" aria-label="Compare"><a class="wayback" href="#/runs">‹ All runs</a>
    <h1 tabindex="-1">Compare</h1><${FactsOf} a=${a} b=${b} />
    ${(a.private || b.private) && html`<p class="notes quiet">Texts of a private run are not kept; times and counts
      only.</p>`}
    ${parts.map((part) => (Array.isArray(part)
      ? html`<p class="same dim">equal: ${part.map(pairName).join(", ")}</p>`
      : html`<${Differs} key=${pairName(part)} runs=${[a, b]} pair=${part} />`))}
  </article>`;
}

/** Name, value of a run, and what is said of the difference. @type {[string, (run: Run) => number | null, (value:
 * number) => string][]} */
const NUMBERS = [
  ["first word", (run) => run.first_s, seconds],
  ["took", (run) => run.client_s, seconds],
  ["tokens in", (run) => run.all_nodes?.prompt_tokens ?? null, number],
  ["tokens out", (run) => run.all_nodes?.completion_tokens ?? null, number],
  ["answer", (run) => answerOf(run)?.chars ?? null, (value) => counted(value, "character")],
];
const answerOf = (/** @type {Run} */ run) => run.nodes.filter(({ answers }) => answers).at(-1)?.output ?? null;

/** @param {{a: Run, b: Run}} props */
function FactsOf({ a, b }) {
  const row = (/** @type {string} */ name, /** @type {Run} */ run) => html`<tr><th scope="row">${name} <a
      href=${addressOf("runs", [run.id])}>${run.name ?? run.path} ${clock(run.at)}</a></th>
    ${NUMBERS.map(([title, value, words]) => html`<td key=${title}>${shown(value(run), words)}</td>`)}
    <td>${run.stood_out.map(({ text }) => text).join(" ") || "nothing"}</td></tr>`;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Facts"><table class="factsof"><thead><tr>
    <th scope="col">run</th>${NUMBERS.map(([title]) => html`<th key=${title} scope="col">${title}</th>`)}
    <th scope="col">what stood out</th></tr></thead>
    <tbody>${row("A", a)}${row("B", b)}<tr><th scope="row">difference</th>
    ${NUMBERS.map(([title, value, words]) => html`<td key=${title}>${more(value(a), value(b), words)}</td>`)}
    <td>${isSame(answerOf(a), answerOf(b)) ? "same answer" : "another answer"}</td></tr></tbody></table></div>`;
}

/** @param {number | null} value @param {(value: number) => string} words */
const shown = (value, words) => (value === null ? "" : words(value));

/** @param {number | null} a @param {number | null} b @param {(value: number) => string} words */
function more(a, b, words) {
  if (a === null || b === null) return "";
  return a === b ? "the same" : `${b > a ? "+" : "−"}${words(Math.abs(b - a))}`;
}

/** @param {{runs: [Run, Run], pair: Pair}} props */
function Differs({ runs, pair }) {
  const { a, b } = pair;
  const only = a && b ? "" : a ? "only in A" : "only in B";
  const took = [a, b].map((node) => (node && node.begun_s !== null && node.ended_s !== null
    ? seconds(node.ended_s - node.begun_s) : "-"));
  const sent = [lastCall(a)?.body ?? null, lastCall(b)?.body ?? null];
  const came = [a?.output ?? null, b?.output ?? null];
  return html`<section class="differs" aria-label=${pairName(pair)}><h2>${pairName(pair)} <small
    class="dim">${only || `${took[0]}, ${took[1]}`}</small></h2>
    <${Texts} runs=${runs} title="Sent" refs=${sent} read=${promptIn} />
    <${Texts} runs=${runs} title="Came" refs=${came} read=${String} /></section>`;
}

/**
 * @param {{runs: [Run, Run], title: string, refs: (Ref | null)[], read: (text: string) => string}} props `read`: what
 *   of a text is compared
 */
function Texts({ runs, title, refs, read }) {
  const [a, b] = refs;
  const same = isSame(a, b);
  const told = useTold(same ? "" : `${a?.sum}/${b?.sum}/${runs.map(({ id }) => id)}`, async () => {
    const [one, two, { diffWordsWithSpace }] = await Promise.all([
      sideOf(runs[0], a, read),
      sideOf(runs[1], b, read),
      import("../vendor/diff.js"),
    ]);
    return { one, two, made: changes(one.text, two.text, diffWordsWithSpace) };
  });
  if (!a && !b) return null;
  if (same) return html`<h3>${title} <span class="dim">equal</span></h3>`;
  if (!told.data) return html`<h3>${title}</h3><${Missing} error=${told.error} again=${told.again} rows=${3} />`;
  const { one, two, made } = told.data;
  const cut = one.cut || two.cut;
  return html`<h3>${title}</h3>${cut && html`<p class="dim">A text was cut: it is compared as far as it is there.</p>`}
    <div class="twosides">${["A", "B"].map((side, isB) => html`<div class="msg"><h4>${side}</h4><pre tabindex="0">
      ${made.map(({ value, added, removed }) => !(isB ? removed : added) && (added ? html`<ins>${value}</ins>` : removed
        ? html`<del>${value}</del>` : value))}</pre></div>`)}</div>`;
}

/** @param {Run} run @param {Ref | null} ref @param {(text: string) => string} read @returns {Promise<Side>} */
async function sideOf(run, ref, read) {
  if (!ref) return { text: "", cut: false };
  const text = await textOf(run.id, ref);
  return text.left_out ? { text: text.head + text.tail, cut: true } : { text: read(text.head), cut: false };
}

/** The messages of a body as text, then what stands beside them. @param {string} body */
function promptIn(body) {
  const sent = sentIn(body);
  if (!sent) return body;
  const messages = sent.messages.map(({ role, text, calls }) => `${role}\n${text}${calls && `\n${calls}`}`);
  const samplers = sent.samplers.map(([name, value]) => `${name}: ${value}`);
  return [...messages, sent.prompt ?? "", sent.tools.join(", "), samplers.join("\n")].filter(Boolean).join("\n\n");
}
