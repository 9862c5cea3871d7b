// @ts-check
// Overview: the last hour in six plots, or as a table; or the history of hours, days and weeks.
import { html, useState } from "../vendor/preact.js";
import { useAsked } from "../shared/asked.js";
import { health } from "../endpoints/endpoints.js";
import { stateWords } from "../endpoints/state_words.js";
import { Failed, Mark, Missing } from "../shared/parts.js";
import { History, Plots, Rows, Today } from "./history.js";
import { SPANS, hourPlots, rows, sinceFirst, totals, xs } from "./numbers.js";
import { clock, counted, moment } from "../shared/words.js";

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
  const names = all.map(({ name }) => name);
  const shown = (/** @type {any} */ one) =>
    names.indexOf(one.name) === names.lastIndexOf(one.name) ? one.name : `${one.user}/${one.name}`;
  return html`<ul class="servers" aria-label="Endpoints">${down.map(
    (
      one,
    ) => html`<li><a class="state failed" href="#/endpoints" title=${stateWords(one)}><${Mark} state="failed" />
      ${shown(one)}<span class="dim"> failing</span></a></li>`,
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
