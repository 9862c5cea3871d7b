// @ts-check
// Overview: the last hour in six plots, or as a table; or the history of hours, days and weeks; and who used what.
import { html, useState } from "../vendor/preact.js";
import { useAsked } from "../shared/asked.js";
import { health } from "../endpoints/endpoints.js";
import {
  BYS, SPANS, groupRow, hourPlots, plotsOf, rows, sinceFirst, slotRows, slotWords, totals, xs,
} from "./numbers.js";
import { Failed, Mark, Missing } from "../shared/parts.js";
import { Plot } from "../shared/plot.js";
import { state } from "../shared/server.js";
import { stateWords } from "../endpoints/state_words.js";
import { clock, counted, moment, number } from "../shared/words.js";

const COMMANDS = [
  "./run --keys add NAME users=ann",
  "./run --keys list",
  "./run --keys rotate NAME",
  "./run --keys revoke NAME",
];
const WORDS = /** @type {Record<string, string>} */ ({
  concurrent: "of requests at once",
  requestsPerMinute: "of requests a minute",
  tokensPerDay: "of tokens a day",
  costPerDay: "of the cost a day",
});

export function Page() {
  const { data, error, again } = useAsked("numbers", 5);
  const { data: servers } = useAsked("endpoints", 15);
  const [table, show] = useState(false);
  const [span, stretch] = useState("hour");
  if (!data) return html`<${Missing} error=${error} again=${again} />`;
  return html`<div class="page">
    <div class="pagehead"><h1>Overview</h1>${data.history && html`<select aria-label="Time" value=${span}
      onChange=${(/** @type {any} */ event) => stretch(event.target.value)}>${SPANS.map(([value,
        title]) => html`<option value=${value}>${title}</option>`)}</select>`}
      <span class="dim">${data.history ? "" : "the last hour, "}to ${clock(data.end)}</span>
      <label class="right"><input type="checkbox" checked=${table}
        onChange=${(/** @type {any} */ event) => show(event.target.checked)} /> as a table</label></div>
    ${error && html`<${Failed} error=${error} again=${again} />`}
    ${span === "hour" && html`<dl class="big">${totals(data).map(([name, value]) => html`<div><dd>${value}</dd><dt>
    ${name}</dt></div>`)}</dl>`}
    <${Servers} all=${servers?.endpoints ?? []} />
    ${span === "hour" && html`<${Today} />`}
    ${span !== "hour" ? html`<${History} span=${span} table=${table} />` : table ? html`<${Rows}
      label="The last hour in numbers" rows=${rows(data)} none="Nothing in the last hour." />` : html`<${Plots}
        plots=${hourPlots(sinceFirst(data))} x=${xs(sinceFirst(data))} />`}
    ${data.keys && html`<${Keys} />`}
    <p class="dim">${!data.history && html`For days and weeks, and what each user needed, <a
      href="#/help/costs?at=keep-a-history">keep a history</a>. `}For other tools: <a
      href="#/help/metrics"><code>/metrics</code></a>.</p>
  </div>`;
}

/** Those that fail by name, the rest as a count. @param {{ all: any[] }} props */
function Servers({ all }) {
  if (!all.length) return null;
  const down = all.filter((one) => one.state === "failing");
  const rest = health(all.filter((one) => one.state !== "failing"));
  return html`<ul class="servers" aria-label="Endpoints">${down.map(
    (
      one,
    ) => html`<li><a class="state failed" href="#/endpoints" title=${stateWords(one)}><${Mark} state="failed" />
      ${one.name} (${one.users.join(", ")})<span class="dim"> failing</span></a></li>`,
  )}${
    rest &&
    html`<li><a class="state" href="#/endpoints">${counted(all.length - down.length, "endpoint")}:<span class="dim">
      ${` ${rest}`}</span></a></li>`
  }</ul>`;
}

/** Who holds a key of the keys file: today's numbers, and the commands that look after keys. */
function Keys() {
  const { data, error, again } = useAsked("keys", 15);
  if (!data?.keys) return error && html`<${Failed} error=${error} again=${again} />`;
  const left = data.count - data.keys.length;
  return html`<h2>Keys</h2>
    <${Rows} label="Keys today" rows=${data.keys.map(keyRow)}
      none="The keys file has no entries, so nobody is let in." />
    ${left > 0 && html`<p class="dim">${counted(left, "more key")}, not used of late.</p>`}
    <p class="dim">Keys are made and withdrawn by commands alone (<a href="#/help/keys">how</a>):</p><pre tabindex="0">
    ${COMMANDS.join("\n")}</pre>`;
}

/** @param {any} key */
function keyRow({ name, users, requests, tokens, running, waiting, share, seen, expired, priority }) {
  const shares = Object.entries(share).map(([limit, part]) => `${Math.round(100 * part)} % ${WORDS[limit]}`);
  return {
    key: html`<a href=${`#/runs?key=${encodeURIComponent(name)}`}>${name}</a>${expired ? " (expired)"
      : priority === "background" ? " (background)" : ""}`,
    users: users.join(", ") || "none",
    requests,
    tokens,
    running,
    waiting,
    "of its limits": shares.join(", ") || "–",
    "last seen": seen ? moment(seen) : "–",
  };
}

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

/** What each user, or each model name, asked for and used today; of one user by model names. */
function Today() {
  const [by, sort] = useState("user");
  const [user, choose] = useState("");
  const { data } = useAsked("today", 15, { user });
  if (!data) return null;
  const { since, whole, lines } = data[user ? "model name" : by];
  const row = (/** @type {unknown} */ head, /** @type {Line[]} */ some) => {
    const sum = (/** @type {keyof Line} */ name) => some.reduce((all, line) => all + Number(line[name]), 0);
    const [read, wrote] = [sum("prompt_tokens"), sum("completion_tokens")];
    return {
      [user ? "model name" : by]: head,
      requests: sum("requests"),
      failed: sum("failed"),
      "tokens in": read,
      "tokens out": wrote,
      "tokens in all": read + wrote,
    };
  };
  const users = state.value?.users ?? [];
  const rows = lines.map((/** @type {Line} */ line) => row(!user && by === "user" && users.includes(line.name)
    ? html`<button type="button" class="link" title="by model name" onClick=${() => choose(line.name)}>${line.name}
      </button>` : line.name || "–", [line]));
  const all = row(html`<b>${user || "all users"}, in all</b>`, lines);
  if (rows.length > 1 || user) rows.push(all);
  const day = data.user;
  const known = day.lines.filter((/** @type {Line} */ line) => line.name === user);
  const own = row(html`<b>${user}, since midnight</b>`, known);
  if (day.whole && own.requests > all.requests) rows.push(own);
  return html`<div class="pagehead"><h2>Today</h2><label>of <select aria-label="of which user" value=${user}
      onChange=${(/** @type {any} */ event) => choose(event.target.value)}><option value="">all users</option>
      ${users.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      ${!user && html`<label>by <select value=${by}
        onChange=${(/** @type {any} */ event) => sort(event.target.value)}>${Object.keys(data).map(
          (name) => html`<option>${name}</option>`)}</select></label>`}
      <span class="dim">requests that have ended, ${whole ? "since midnight"
        : `since ${clock(since)}, when this server started`}</span></div>
    <${Rows} label="Today in numbers" rows=${rows} none="No request has ended today." />`;
}
