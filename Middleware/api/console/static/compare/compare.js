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
import { messagesIn } from "../runs/spoken.js";
import { textOf } from "../runs/texts.js";
import { folded, isEqual, isSame, lastCall, pairName, pairsOf, reasonsOf } from "./pairs.js";

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
  return html`<p class="comparebar" role="status"><span>${second ? html`<b>${first}</b> and <b>${second}</b>`
      : html`<b>${first}</b> is marked. Mark a second run (<kbd>m</kbd>) to compare, or open another run.`}</span>
    ${second && html`<a href=${addressOf("compare", chosen.map(({ id }) => id))}>Compare</a>`}
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
  const [early, late] = /** @type {Run[]} */ ([one.data, two.data]).sort((first, second) => first.at - second.at);
  return html`<${Both} a=${early} b=${late} />`;
}

/** A is the earlier of the two. @param {{a: Run, b: Run}} props */
function Both({ a, b }) {
  const pairs = pairsOf(a.nodes, b.nodes);
  const parts = folded(pairs);
  return html`<article class="compare" aria-label="Compare"><a class="wayback" href="#/runs">‹ All runs</a>
    <h1 tabindex="-1">Compare</h1>
    ${[a, b].every((run) => run.texts && !run.private) && html`<${InShort} a=${a} b=${b} pairs=${pairs} />`}
    <${FactsOf} a=${a} b=${b} />
    ${(a.private || b.private) && html`<p class="notes quiet">Texts of a private run are not kept; times and counts
      only.</p>`}
    ${parts.map((part) => (Array.isArray(part)
      ? html`<p class="same dim">equal: ${part.map(pairName).join(", ")}</p>`
      : html`<${Differs} key=${pairName(part)} runs=${[a, b]} pair=${part} />`))}
  </article>`;
}

/** So many nodes are named where one line says what differs. */
const MOST_NAMED = 6;

/**
 * What differs, in one line.
 * @param {{a: Run, b: Run, pairs: Pair[]}} props
 */
function InShort({ a, b, pairs }) {
  const differing = pairs.filter((pair) => !isEqual(pair));
  const named = differing.slice(0, MOST_NAMED);
  const { data } = useTold(`${a.id}/${b.id}`, async () => ({
    question: await questionWords(a, b),
    prompts: await Promise.all(named.map((pair) => asksOther([a, b], pair).catch(() => true))),
  }));
  if (!data) return html`<p class="dim">...</p>`;
  const show = (/** @type {Pair} */ pair) => {
    const heading = /** @type {HTMLElement | null} */ (document.querySelector(`[data-pair="${nameIn(pair)}"]`));
    heading?.focus();
    heading?.scrollIntoView();
  };
  const node = (/** @type {Pair} */ pair, /** @type {number} */ at) => html`${at ? ", " : ""}<button type="button"
    class="link" onClick=${() => show(pair)}>${pairName(pair)}</button> (${reasonsOf(pair,
      data.prompts[at]).join(", ")})`;
  const many = counted(pairs.length, "node");
  const left = differing.length - named.length;
  const differ = `${number(differing.length)} of ${many} ${differing.length === 1 ? "differs" : "differ"}: `;
  return html`<p class="inshort">${data.question}${differing.length
    ? html`${differ}${named.map(node)}${left > 0 && ` and ${number(left)} more`}.`
    : `no node of ${number(pairs.length)} differs.`}${clientWords(answerOf(a), answerOf(b))}</p>`;
}

/** Whether the clients got the same; "": neither got an answer. @param {Ref | null} a @param {Ref | null} b */
const clientWords = (a, b) => (a || b ? ` The client got ${isSame(a, b) ? "the same" : "another"} answer.` : "");

/** The places of both nodes in their runs. @param {Pair} pair */
const nameIn = ({ a, b }) => `${a?.i} ${b?.i}`;

/** Whether both were asked the same by their clients, as the beginning of a sentence. @param {Run} a @param {Run} b */
async function questionWords(a, b) {
  if (!a.asked || !b.asked) return "";
  if (isSame(a.asked, b.asked)) return "Same question, ";
  const [one, two] = await Promise.all([textOf(a.id, a.asked), textOf(b.id, b.asked)]);
  const [mine, others] = [one, two].map(({ head }) => messagesIn(head).map(({ content }) => content));
  if (!mine.length || mine.at(-1) !== others.at(-1)) return "The question differs; ";
  return String(mine) === String(others) ? "Same question, " : "Same question after other messages; ";
}

/** Whether a node asked its model something else; what stands beside the messages is not meant.
 * @param {[Run, Run]} runs @param {Pair} pair */
async function asksOther(runs, { a, b }) {
  const [one, two] = [lastCall(a)?.body ?? null, lastCall(b)?.body ?? null];
  if (!one || !two || isSame(one, two)) return false;
  const texts = await Promise.all([textOf(runs[0].id, one), textOf(runs[1].id, two)]);
  const [mine, others] = texts.map((text) => (text.left_out ? text.head + text.tail : messagesOf(text.head)));
  return mine !== others;
}

/** What of a body its model reads. @param {string} body */
function messagesOf(body) {
  const { messages, prompt, tools } = sentIn(body) ?? {};
  return JSON.stringify([messages ?? body, prompt, tools]);
}

/** Name, value of a run, what is said of it, and of the difference. @type {[string, (run: Run) => number | null,
 * (value: number) => string, ((value: number) => string)?][]} */
const NUMBERS = [
  ["first word", (run) => run.first_s, seconds, shortTime],
  ["took", (run) => run.client_s, seconds, shortTime],
  ["tokens in", (run) => run.all_nodes?.prompt_tokens ?? null, number],
  ["tokens out", (run) => run.all_nodes?.completion_tokens ?? null, number],
  ["answer", (run) => answerOf(run)?.chars ?? null, (value) => counted(value, "character")],
];
const SIDES = ["A, earlier", "B, later"];
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
    <tbody>${row(SIDES[0], a)}${row(SIDES[1], b)}<tr><th scope="row">difference</th>
    ${NUMBERS.map(([title, value, words, apart = words]) => html`<td key=${title}>${more(value(a), value(b),
      apart)}</td>`)}
    <td></td></tr></tbody></table></div>`;
}

/** @param {number | null} value @param {(value: number) => string} words */
const shown = (value, words) => (value === null ? "" : words(value));

/** @param {number | null} a @param {number | null} b @param {(value: number) => string} words */
function more(a, b, words) {
  if (a === null || b === null) return "";
  const said = words(Math.abs(b - a));
  return a === b ? "the same" : said === ABOUT ? said : `${b > a ? "+" : "−"}${said}`;
}

const ABOUT = "about the same";

/** Between two times. @param {number} value */
function shortTime(value) {
  if (value < 0.01) return ABOUT;
  return value < 0.1 ? `${Math.round(1000 * value)}\u202fms` : seconds(value);
}

/** @param {{runs: [Run, Run], pair: Pair}} props */
function Differs({ runs, pair }) {
  const { a, b } = pair;
  const only = a && b ? "" : a ? "only in A" : "only in B";
  const took = [a, b].map((node) => (node && node.begun_s !== null && node.ended_s !== null
    ? seconds(node.ended_s - node.begun_s) : "-"));
  const sent = [lastCall(a)?.body ?? null, lastCall(b)?.body ?? null];
  const came = [a?.output ?? null, b?.output ?? null];
  return html`<section class="differs" aria-label=${pairName(pair)}><h2 tabindex="-1"
    data-pair=${nameIn(pair)}>${pairName(pair)} <small
    class="dim">${only || `A ${took[0]}, B ${took[1]}`}</small></h2>
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
    <div class="twosides">${SIDES.map((side, isB) => html`<div class="msg"><h4>${side}</h4><pre tabindex="0">
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
