// @ts-check
// Who answers which model name: a table of all names, and what any name would run.
import { html, useEffect, useState } from "../vendor/preact.js";
import { useAsked, useTold } from "../shared/asked.js";
import { Mark, Missing } from "../shared/parts.js";
import { ask } from "../shared/server.js";
import { clock, counted, sentence } from "../shared/words.js";
import { addressOf } from "./workflow_place.js";

/**
 * @typedef {{category: string | null, workflow: string, file: string | null, error: string | null}} Branch
 * @typedef {{name: string, user: string | null, stands_for: string | null, fell_back: boolean, endpoint: string | null,
 *   chooser: Branch | null, branches: Branch[], said_in: {file: string | null, setting: string | null} | null,
 *   error: string | null, status: number | null, listed?: boolean}} NameAnswer
 * @typedef {{name: string, user: string, count: number, last: number}} FallenName
 * @typedef {{names: NameAnswer[], fell_back: FallenName[]}} NameTable
 */

const TYPING_MS = 250;

export function ModelNames() {
  const { data, error, again } = /** @type {import("../shared/asked.js").Asked<NameTable>} */ (useAsked("model-names"));
  if (!data) return html`<section class="names"><${Missing} error=${error} again=${again} /></section>`;
  const listed = data.names.filter((one) => one.listed);
  const others = data.names.filter((one) => !one.listed);
  return html`<section class="names" aria-labelledby="names">
    <h1 id="names">Model names</h1>
    <p class="dim">What a chat program may ask for, and which workflow answers.</p>
    <${AnyName} />
    <${Names} label="Model names" names=${listed} />
    ${data.fell_back.length > 0 && html`<${Fallen} names=${data.fell_back} />`}
    ${
      others.length > 0 &&
      html`<details><summary>${counted(others.length, "name")} that model lists do not have</summary>
      <${Names} label="Names that model lists do not have" names=${others} /></details>`
    }
  </section>`;
}

/** What a name would run that nobody has to have asked yet. */
function AnyName() {
  const [typed, setTyped] = useState("");
  const [name, setName] = useState("");
  useEffect(() => {
    const soon = setTimeout(() => setName(typed.trim()), TYPING_MS);
    return () => clearTimeout(soon);
  }, [typed]);
  const path = `model-names/${encodeURIComponent(name)}`;
  const { data, error } = /** @type {import("../shared/asked.js").Asked<NameAnswer>} */ (
    useTold(name, (signal) => ask(path, { signal }))
  );
  return html`<div class="anyname"><label>What would this name run? <input type="text" value=${typed} spellcheck="false"
      autocapitalize="off" placeholder="mira:novel"
      onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} /></label>
    <div role="status">${name && error ? html`<p class="notes bad">${sentence(error.message)}</p>` : name && data &&
      html`<${Told} one=${data} />`}</div></div>`;
}

/** One name in a sentence. @param {{one: NameAnswer}} props */
function Told({ one }) {
  if (one.error)
    return html`<p class="notes bad"><${Mark} state="failed" /> A request for <b>${one.name}</b> is refused:
      ${" "}${one.error}</p>`;
  const file = !one.chooser && one.branches[0]?.file && html` <span class="dim">(${one.branches[0].file})</span>`;
  const why = one.fell_back && html`, because nothing is called that and the default of ${one.user} answers`;
  return html`<p class=${one.fell_back ? "notes" : "notes quiet"}><${Mark} state=${one.fell_back ? "trouble"
    : "done"} plain /> <b>${one.name}</b> would run <${Runs} one=${one} />${file}${why}.</p>`;
}

/** @param {{label: string, names: NameAnswer[]}} props */
const Names = ({ label, names }) =>
  html`<table class="nametable" aria-label=${label}><thead><tr><th scope="col">asked</th>
    <th scope="col">runs</th><th scope="col">said in</th></tr></thead>
    <tbody>${names.map((one) => html`<tr key=${one.name}><th scope="row"><code>${one.name}</code></th>
      <td>${one.error ? html`<span class="trouble">refused: ${one.error}</span>` : html`<${Runs} one=${one} />`}</td>
      <td><${SaidIn} one=${one} /></td></tr>`)}</tbody></table>`;

/** What answers, as links. @param {{one: NameAnswer}} props */
function Runs({ one }) {
  const { chooser, branches, endpoint, user } = one;
  if (endpoint) return html`the endpoint <b>${endpoint}</b>, without a workflow`;
  if (!branches.length) return html`what <code>${one.stands_for}</code> runs`;
  if (!chooser) return html`<${Workflow} branch=${branches[0]} user=${user} />`;
  return html`<${Workflow} branch=${chooser} user=${user} />, which picks one of
    <ul class="routes">${branches.map((branch) => html`<li key=${branch.category}><code>${branch.category}</code>${" "}
      <${Workflow} branch=${branch} user=${user} /></li>`)}</ul>`;
}

/** @param {{branch: Branch, user: string | null}} props */
const Workflow = ({ branch, user }) =>
  branch.file
    ? html`<a href=${addressOf({ path: branch.file, user })}>${shortPath(branch.file, user)}</a>`
    : html`<b>${branch.workflow}</b> <span class="trouble">${branch.error}</span>`;

/** `Main`, `_shared/novel`: without what everybody knows. @param {string} file @param {string | null} user */
export function shortPath(file, user) {
  const path = file.replace(/^Workflows\//, "").replace(/\.json$/, "");
  const own = path.startsWith(`${user}/`) ? path.slice(`${user}/`.length) : path;
  return own.includes("/") ? own.replace(/\/_DefaultWorkflow$/, "") : own;
}

/** @param {{one: NameAnswer}} props */
function SaidIn({ one }) {
  if (!one.said_in) return null;
  const { file, setting } = one.said_in;
  if (!file) return html`<span class="dim">the folder's name</span>`;
  const alias = one.stands_for ? html` <span class="dim">stands for</span> <code>${one.stands_for}</code>` : "";
  const place = file.includes("/") ? html`<a href=${addressOf({ path: file, user: null })}>${file}</a>` : file;
  return html`${place}${setting && html` <span class="dim">${setting}</span>`}${alias}`;
}

/** @param {{names: FallenName[]}} props */
const Fallen = ({ names }) =>
  html`<h2>Asked in the last hour, and nothing is called that</h2>
    <table class="nametable" aria-label="Names that fell back"><thead><tr>
      <th scope="col">asked</th><th scope="col">answered by</th><th scope="col">how often</th></tr></thead>
    <tbody>${names.map(({ name, user, count, last }) => html`<tr key=${`${name} ${user}`}><th scope="row">
      <code>${name}</code></th><td>the default of ${user}</td>
      <td>${counted(count, "request")}, the last ${clock(last)}</td></tr>`)}</tbody></table>`;
