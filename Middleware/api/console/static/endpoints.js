// @ts-check
// Endpoints: one card a model server, its state in words, what it did, and a probe.
import { html, useEffect, useState } from "./vendor/preact.js";
import { useAsked } from "./asked.js";
import { Empty, Failed, Loading, Mark } from "./parts.js";
import { Plot } from "./plot.js";
import { ask, runs, state } from "./server.js";
import { clock, counted, number, seconds } from "./words.js";

/** @typedef {{ user: string, name: string, file: string, type: string, backend: string, url: string, model: string, embeddings: boolean,
 *   gate: { limit: number, running: number, waiting: number } | null, state: "well" | "failing" | "quiet", since: number | null,
 *   last_error: { at: number, kind: string, text: string, advice: string } | null, calls: [number, number | null, number | null, boolean][],
 *   median: { first_s: number | null, rate: number | null }, used_by: string[], probe: any }} Endpoint */

export function Page() {
  const { data, error, again } = useAsked("endpoints", 10);
  const ended = [...runs.value.values()].filter((run) => run.took_s !== null && !["waiting", "running", "answering", "finishing"].includes(run.state)).length;
  useEffect(() => {
    const soon = setTimeout(again, 300);
    return () => clearTimeout(soon);
  }, [ended]);
  if (error && !data) return html`<${Failed} error=${error} again=${again} />`;
  if (!data) return html`<${Loading} />`;
  if (!data.endpoints.length) return html`<${Empty} title="No endpoint yet" sentence="no workflow names an endpoint"><p><a href="#/help/configuration">How to name one</a></p><//>`;
  return html`<div class="page">
    <h1>Endpoints</h1>
    <p class="dim">What the workflows of the served users reach. ${failing(data.endpoints)}</p>
    ${error ? html`<${Failed} error=${error} again=${again} />` : null}
    <ul class="cards">${data.endpoints.map((/** @type {Endpoint} */ one) => html`<${Card} key=${`${one.user}/${one.name}`} one=${one} again=${again} />`)}</ul>
  </div>`;
}

/** @param {Endpoint[]} all */
function failing(all) {
  const down = all.filter((one) => one.state === "failing").length;
  if (down) return `${down} of ${all.length} ${down === 1 ? "is" : "are"} failing.`;
  return all.every((one) => one.state === "quiet") ? "None was called yet." : "None is failing.";
}

/** How the unbroken row of calls reads. @param {Endpoint} one */
export function stateWords(one) {
  if (one.state === "quiet") return "not called yet";
  const row = one.calls.length - 1 - one.calls.map((call) => call[3] === (one.state === "well")).lastIndexOf(false);
  const calls = `${row}${row === one.calls.length && row >= 100 ? " or more" : ""} call${row === 1 ? "" : "s"}`;
  return `${one.state} since ${one.since === null ? "its first call" : clock(one.since)}, ${calls}`;
}

/** @param {{ one: Endpoint, again: () => void }} props */
function Card({ one, again }) {
  const title = `endpoint-${one.user}-${one.name}`;
  return html`<li class=${`endpoint ${one.state}`} aria-labelledby=${title}>
    <div class="ehead">
      <h2 id=${title}>${one.name}</h2><span class="dim">${one.user}</span>
      <span class=${`state ${MARKS[one.state]}`}>${one.state === "quiet" ? null : html`<${Mark} state=${MARKS[one.state]} />`} ${stateWords(one)}</span>
    </div>
    <dl class="facts">
      <dt>address</dt><dd><code>${one.url || "built in"}</code></dd>
      <dt>model</dt><dd>${one.model || "the server's own"}${one.embeddings ? ", for embeddings" : ""}</dd>
      <dt>type</dt><dd>${one.type}${one.backend && one.backend !== one.type ? ` (${one.backend})` : ""}</dd>
      ${one.gate ? html`<dt>slots</dt><dd>${one.gate.running} of ${one.gate.limit} in use, ${one.gate.waiting} wait</dd>` : null}
    </dl>
    ${one.calls.length ? html`<${Calls} one=${one} />` : null}
    ${one.last_error ? html`<p class=${`notes${one.state === "failing" ? " bad" : ""}`}><b>${clock(one.last_error.at)}</b> ${one.last_error.text || one.last_error.kind}
      ${one.last_error.advice ? html`<span class="advice">Next: ${one.last_error.advice.split("`").map((piece, at) => (at % 2 ? html`<code>${piece}</code>` : piece))}</span>` : null}</p>` : null}
    <${Probe} one=${one} again=${again} />
    ${one.used_by.length ? html`<p class="usedby dim">used by ${one.used_by.map((path, at) => html`${at ? ", " : ""}<a href=${`#/workflows/${path.split("/").map(encodeURIComponent).join("/")}`}>${bare(path)}</a>`)}</p>` : null}
  </li>`;
}

/** @type {Record<string, string>} */
export const MARKS = { well: "done", failing: "failed", quiet: "quiet" };

/** @param {string} path */
const bare = (path) => path.replace(/^Workflows\//, "").replace(/\.json$/, "");

/** @param {{ one: Endpoint }} props */
function Calls({ one }) {
  const x = one.calls.map((_, at) => at);
  const failed = one.calls.map((call) => (call[3] ? null : 0));
  const crosses = failed.some((value) => value !== null) ? failed : undefined;
  const plots = [
    { title: "first word", values: one.calls.map((call) => (call[3] ? call[1] : null)), usual: one.median.first_s, tell: seconds, whole: false },
    { title: "tokens a second", values: one.calls.map((call) => (call[3] ? call[2] : null)), usual: one.median.rate, tell: number, whole: true },
  ];
  const shown = plots.filter((plot) => crosses || plot.values.some((value) => value !== null));
  const bad = failed.filter((value) => value !== null).length;
  return html`<div class="twoplots">${shown.map((plot) => {
    const usual = plot.usual === null ? "" : `, usually ${plot.tell(plot.usual)}`;
    return html`<figure><figcaption class="dim">${plot.title}${usual}</figcaption>
      <${Plot} x=${x} curves=${[{ label: plot.title, values: plot.values, colour: "--w-say" }]} crosses=${crosses} height=${72} whole=${plot.whole} tell=${plot.tell}
        said=${`${plot.title} of the last ${one.calls.length} calls${usual}; ${bad} failed`} /></figure>`;
  })}</div>`;
}

/** @param {{ one: Endpoint, again: () => void }} props */
function Probe({ one, again }) {
  const [told, tell] = useState(/** @type {{ busy?: boolean, made?: any, error?: Error }} */ ({}));
  const may = (state.value?.rights ?? []).includes("act");
  const probe = async () => {
    tell({ busy: true });
    try {
      tell({ made: await ask(`endpoints/${encodeURIComponent(one.user)}/${encodeURIComponent(one.name)}/probe`, { method: "POST", body: {} }) });
    } catch (error) {
      tell({ error: /** @type {Error} */ (error) });
    }
    again();
  };
  const made = told.made ?? one.probe;
  const why = may ? null : "Probing needs the right to act: open the console on the server's own machine, or with --console-key.";
  return html`<div class="probe"><button type="button" disabled=${!may || told.busy} title=${why} onClick=${probe}>${told.busy ? "Probing ..." : "Probe"}</button>
    <div role="status">${told.error ? html`<p class="notes bad">${told.error.message}</p>` : made ? html`<${Probed} made=${made} one=${one} />` : null}</div>
    ${why ? html`<p class="dim">${why}</p>` : null}</div>`;
}

/** @param {{ made: any, one: Endpoint }} props */
function Probed({ made, one }) {
  const models = made.models ?? [];
  return html`<p class=${`notes${made.well ? " good" : " bad"}`}>${made.line}
      ${made.well && made.model_is_listed === false && one.model ? html` <b>${one.model}</b> is not in its list of models.` : null}</p>
    ${models.length ? html`<details><summary>${models.length === 200 ? "the first 200 models" : counted(models.length, "model")}</summary><p class="models">${models.join(", ")}</p></details>` : null}`;
}
