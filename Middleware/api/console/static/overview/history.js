// @ts-check
// Overview of hours, days and weeks: the history in plots or as a table, and who used what.
import { html, useState } from "../vendor/preact.js";
import { useAsked } from "../shared/asked.js";
import { Failed, Missing } from "../shared/parts.js";
import { Plot } from "../shared/plot.js";
import { BYS, groupRow, plotsOf, slotRows, slotWords } from "./history_numbers.js";
import { counted, number } from "../shared/words.js";

/** @typedef {import("./history_numbers.js").History} Made */

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
    ${table ? html`<${Rows} label="The history in numbers" rows=${slotRows(data)} />` : html`<${Plots} made=${data} />`}
    <div class="pagehead"><h2>By</h2><select aria-label="By what" value=${by} onChange=${change}>${BYS.map(([value,
      title]) => html`<option value=${value}>${title}</option>`)}</select>
      ${name !== null && html`<span class="dim">The ${table ? "numbers" : "plots"} are those of ${name ||
        "requests without a name"} alone.</span> <button type="button"
          onClick=${() => choose(null)}>Show all</button>`}</div>
    <${Groups} made=${data} by=${by} name=${name} choose=${choose} />
    ${data.lost > 0 && html`<p class="dim">${counted(data.lost, "run")} could not be written and ${data.lost === 1
      ? "is" : "are"} missing here.</p>`}`;
}

/** @param {{ made: Made }} props */
function Plots({ made }) {
  return html`<div class="plots">${plotsOf(made).map(
    ({
      title,
      crosses,
      whole,
      tell,
      said,
      curves,
    }) => html`<figure key=${title}><figcaption>${title}${curves.length > 1 && html`<span class="legend">
      ${curves.map(({ kind, label }) => html`<span><i class=${`k-${kind}`}></i>${label}</span>`)}</span>`}</figcaption>
    <${Plot} key=${made.span} x=${made.starts} curves=${curves} crosses=${crosses} hour=${true} whole=${whole}
      tell=${tell} said=${said} moment=${(/** @type {number} */ mark) => slotWords(mark, made.span)} /></figure>`,
  )}</div>`;
}

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
