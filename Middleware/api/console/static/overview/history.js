// @ts-check
// Overview of hours, days and weeks: the history in plots or as a table, and who used what, also today.
import { html, useState } from "../vendor/preact.js";
import { useAsked } from "../shared/asked.js";
import { Failed, Missing } from "../shared/parts.js";
import { Plot } from "../shared/plot.js";
import { BYS, groupRow, plotsOf, slotRows, slotWords } from "./numbers.js";
import { clock, counted, number } from "../shared/words.js";

/** @typedef {import("./numbers.js").History} Made */

/** @param {{ span: string, table: boolean }} props */
export function History({ span, table }) {
  const [by, sort] = useState("user");
  const [name, choose] = useState(/** @type {string | null} */ (null));
  const { data, error, again } = useAsked("history", 60, { span, by, ...(name === null ? {} : { name }) });
  if (!data) return html`<${Missing} error=${error} again=${again} />`;
  const change = (/** @type {any} */ event) => {
    choose(null);
    sort(event.target.value);
  };
  return html`${error && html`<${Failed} error=${error} again=${again} />`}
    ${table ? html`<${Rows} label="The history in numbers" rows=${slotRows(data)} />` : html`<${Plots}
      plots=${plotsOf(data)} x=${data.starts} of=${data.span}
      moment=${(/** @type {number} */ mark) => slotWords(mark, data.span)} />`}
    <div class="pagehead"><h2>By</h2><select aria-label="By what" value=${by} onChange=${change}>${BYS.map(([value,
      title]) => html`<option value=${value}>${title}</option>`)}</select>
      ${name !== null && html`<span class="dim">The ${table ? "numbers" : "plots"} are those of ${name ||
        "requests without a name"} alone.</span> <button type="button"
          onClick=${() => choose(null)}>Show all</button>`}</div>
    <${Groups} made=${data} by=${by} name=${name} choose=${choose} />
    ${data.lost > 0 && html`<p class="dim">${counted(data.lost, "run")} could not be written and ${data.lost === 1
      ? "is" : "are"} missing here.</p>`}`;
}

/**
 * Plots beside each other, each with its title and what its curves are.
 * @param {{ plots: ReturnType<typeof plotsOf>, x: number[], of?: string, moment?: (mark: number) => string }} props
 *   `of`: which time they show
 */
export const Plots = ({ plots, x, of, moment }) =>
  html`<div class="plots">${plots.map(
    ({ title, said, curves, ...how }) => html`<figure key=${title}><figcaption>${title}${curves.length > 1 &&
      html`<span class="legend">${curves.map(({ kind, label }) => html`<span><i class=${`k-${kind}`}></i>${label}
      </span>`)}</span>`}</figcaption>
    <${Plot} key=${of} x=${x} curves=${curves} hour=${true} said=${said} moment=${moment} ...${how} /></figure>`,
  )}</div>`;

/** @param {{ made: Made, by: string, name: string | null, choose: (name: string | null) => void }} props */
function Groups({ made, by, name, choose }) {
  const rows = made.groups.map((group) => ({
    [by]: html`<button type="button" class="link" aria-pressed=${group.name === name} title="show it alone"
      onClick=${() => choose(group.name === name ? null : group.name)}>${group.name || "–"}</button>`,
    ...groupRow(group),
  }));
  return html`<${Rows} label=${`The history by ${by}`} rows=${rows} />`;
}

/**
 * A table of rows that say the same; numbers as they are.
 * @param {{ label: string, rows: Record<string, any>[], none?: string }} props
 */
export function Rows({ label, rows, none = "No request in this time." }) {
  if (!rows.length) return html`<p class="dim">${none}</p>`;
  const heads = Object.keys(rows[0]);
  return html`<div class="wide" tabindex="0" role="region" aria-label=${label}><table class="numbers">
    <thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${heads.map((head, at) => html`<td class=${at ? "num" : null}>
    ${typeof row[head] === "number" || row[head] === null ? number(row[head]) : row[head]}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/**
 * @typedef {{name: string, requests: number, failed: number, prompt_tokens: number, completion_tokens: number}} Line
 */

/** What each user, or each model name, asked for and used today. */
export function Today() {
  const [by, sort] = useState("user");
  const { data } = useAsked("today", 15);
  if (!data) return null;
  const { since, whole, lines } = data[by];
  const rows = lines.map((/** @type {Line} */ { prompt_tokens: read, completion_tokens: wrote, ...line }) => ({
    [by]: line.name || "–",
    requests: line.requests,
    failed: line.failed,
    "tokens in": read,
    "tokens out": wrote,
    "tokens in all": read + wrote,
  }));
  return html`<div class="pagehead"><h2>Today</h2><label>by <select value=${by}
      onChange=${(/** @type {any} */ event) => sort(event.target.value)}>${Object.keys(data).map((name) => html`<option>
      ${name}</option>`)}</select></label>
      <span class="dim">${whole ? "since midnight" : `since ${clock(since)}, when this server started`}</span></div>
    <${Rows} label="Today in numbers" rows=${rows} none="No request has ended today." />`;
}
