// @ts-check
// Endpoints: one card a model server, its state in words, what it did, and a probe.
import { html, useEffect, useState } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { useAsked } from "../shared/asked.js";
import { Empty, Facts, Failed, Mark, Missing } from "../shared/parts.js";
import { Plot } from "../shared/plot.js";
import { isActive } from "../shared/run_state.js";
import { ask, runs, state } from "../shared/server.js";
import { clock, counted, listed, loadedWords, number, seconds, shareWords } from "../shared/words.js";

/**
 * @typedef {{ user: string, name: string, file: string, type: string, backend: string, url: string, model: string,
 *   embeddings: boolean,
 *   gate: { limit: number, running: number, waiting: number } | null, state: "well" | "failing" | "quiet", since:
 *   number | null,
 *   last_error: { at: number, kind: string, text: string, advice: string } | null, calls: [number, number | null,
 *   number | null, boolean][],
 *   median: { first_s: number | null, rate: number | null }, held: number | null, used_by: string[], probe: any,
 *   addresses: Address[] }} Endpoint */
/**
 * One of several addresses.
 * @typedef {{ url: string, state: "well" | "failing" | "quiet", since: number | null, calls: number, failed: number,
 *   running: number, out_s: number }} Address
 */

/** @typedef {{ user: string, name: string, places: import("../shared/types.js").LoadedPlace[] }} LoadedThere */

/** So many of the newest calls are told. */
const MOST_CALLS = 100;

export function Page() {
  const { data, error, again } = useAsked("endpoints", 10);
  const loaded = useAsked("loaded", 10).data?.loaded ?? [];
  const ended = [...runs.value.values()].filter((run) => !isActive(run)).length;
  useEffect(() => {
    const soon = setTimeout(again, 300);
    return () => clearTimeout(soon);
  }, [ended]);
  if (!data) return html`<${Missing} error=${error} again=${again} />`;
  if (!data.endpoints.length)
    return html`<${Empty} title="No endpoint yet" sentence="no workflow names an endpoint"><p>
      <a href="#/help/models">How to name one</a></p><//>`;
  return html`<div class="page">
    <h1>Endpoints</h1>
    <p class="dim">What the workflows of the served users reach. ${failing(data.endpoints)}</p>
    ${error && html`<${Failed} error=${error} again=${again} />`}
    <ul class="cards">${data.endpoints.map(
      (/** @type {Endpoint} */ one) => html`<${Card} key=${`${one.user}/${one.name}`} one=${one} again=${again}
      loaded=${loaded.find((/** @type {LoadedThere} */ each) => each.user === one.user && each.name === one.name)} />`,
    )}</ul>
  </div>`;
}

/** @param {Endpoint[]} all */
function failing(all) {
  const down = all.filter((one) => one.state === "failing").length;
  if (down) return `${down} of ${all.length} ${down === 1 ? "is" : "are"} failing.`;
  return all.every((one) => one.state === "quiet") ? "None has been called yet." : "None is failing.";
}

/** How the unbroken row of calls reads. @param {Endpoint} one */
export function stateWords(one) {
  if (one.state === "quiet") return "not called yet";
  const row = one.calls.length - 1 - one.calls.map((call) => call[3] === (one.state === "well")).lastIndexOf(false);
  const calls = row === MOST_CALLS ? `${row} or more calls` : counted(row, "call");
  return `${one.state} since ${one.since === null ? "its first call" : clock(one.since)}, ${calls}`;
}

/** How one of several addresses is. @param {Address} one */
export function addressWords(one) {
  const made = one.calls
    ? `${one.state}, ${counted(one.calls, "call")}${one.failed ? `, ${number(one.failed)} failed` : ""}`
    : "not called yet";
  return listed(
    made,
    one.running && `${number(one.running)} running`,
    one.out_s && `left out for ${seconds(one.out_s)}`,
  );
}

/** @param {{ one: Endpoint, again: () => void, loaded: LoadedThere | undefined }} props */
function Card({ one, again, loaded }) {
  const title = `endpoint-${one.user}-${one.name}`;
  const { gate, last_error: error } = one;
  const facts = [
    one.addresses.length
      ? [
          "addresses",
          html`<ul class="addresses">${one.addresses.map((each) => html`<li key=${each.url}><code>${each.url}
            </code> <span class="dim">${addressWords(each)}</span></li>`)}</ul>`,
        ]
      : ["address", html`<code>${one.url || "built in"}</code>`],
    ["model", `${one.model || "the server's own"}${one.embeddings ? ", for embeddings" : ""}`],
    ["type", `${one.type}${one.backend && one.backend !== one.type ? ` (${one.backend})` : ""}`],
    [
      "loaded",
      loaded &&
        html`<ul class="addresses">${loaded.places.map((place) => html`<li key=${place.url}>
          ${loaded.places.length > 1 && html`<code>${place.url}</code> `}${loadedWords(place)}</li>`)}</ul>`,
      "what its server says that it has in memory now",
    ],
    ["slots", gate && `${gate.running} of ${gate.limit} in use, ${gate.waiting} waiting`],
    [
      "prompts",
      one.held !== null && `${shareWords(one.held)}, over the last hour`,
      "how much of its prompts the server had been sent before",
    ],
  ];
  return html`<li class=${`endpoint ${one.state}`} aria-labelledby=${title}>
    <div class="ehead">
      <h2 id=${title}>${one.name}</h2><span class="dim">${one.user}</span>
      <span class=${`state ${MARKS[one.state]}`}>${one.state !== "quiet" && html`<${Mark}
        state=${MARKS[one.state]} />`} ${stateWords(one)}</span>
    </div>
    <${Facts} facts=${facts} />
    ${one.calls.length > 0 && html`<${Calls} one=${one} />`}
    ${
      error &&
      html`<p class=${`notes${one.state === "failing" ? " bad" : ""}`}><b>${clock(error.at)}</b> ${error.text ||
        error.kind}
      ${error.advice && html`<span class="advice">Next: ${error.advice.split("`").map((piece, at) => (at % 2
        ? html`<code>${piece}</code>` : piece))}</span>`}</p>`
    }
    <${Probe} one=${one} again=${again} />
    ${one.used_by.length > 0 && html`<p class="usedby dim">used by ${one.used_by.map((path, at) => html`${at ? ", "
      : ""}<a href=${addressOf("workflows", path.split("/"))}>${bare(path)}</a>`)}</p>`}
  </li>`;
}

/** @type {Record<string, string>} */
export const MARKS = { well: "done", failing: "failed", quiet: "quiet" };

/** @param {string} path */
const bare = (path) => path.replace(/^Workflows\//, "").replace(/\.json$/, "");

/** @param {{ one: Endpoint }} props */
function Calls({ one }) {
  const failed = one.calls.map(([, , , well]) => (well ? null : 0));
  const bad = failed.filter((value) => value !== null).length;
  const plots = [
    {
      title: "first word",
      values: one.calls.map(([, first, , well]) => (well ? first : null)),
      usual: one.median.first_s,
      tell: seconds,
      whole: false,
    },
    {
      title: "tokens a second",
      values: one.calls.map(([, , rate, well]) => (well ? rate : null)),
      usual: one.median.rate,
      tell: number,
      whole: true,
    },
  ].filter(({ values }) => bad || values.some((value) => value !== null));
  return html`<div class="twoplots">${plots.map(({ title, values, usual, tell, whole }) => {
    const usually = usual === null ? "" : `, usually ${tell(usual)}`;
    return html`<figure><figcaption class="dim">${title}${usually}</figcaption>
      <${Plot} x=${[...values.keys()]} curves=${[{ label: title, values, kind: "say" }]} crosses=${bad ? failed
        : undefined} whole=${whole} tell=${tell}
        said=${`${title} of the last ${one.calls.length} calls${usually}; ${bad} failed`} /></figure>`;
  })}</div>`;
}

/** @param {{ one: Endpoint, again: () => void }} props */
function Probe({ one, again }) {
  const [told, tell] = useState(/** @type {{ busy?: boolean, made?: any, error?: Error }} */ ({}));
  const may = (state.value?.rights ?? []).includes("act");
  const probe = async () => {
    tell({ busy: true });
    try {
      tell({
        made: await ask(`endpoints/${encodeURIComponent(one.user)}/${encodeURIComponent(one.name)}/probe`, {
          method: "POST",
          body: {},
        }),
      });
    } catch (error) {
      tell({ error: /** @type {Error} */ (error) });
    }
    again();
  };
  const made = told.made ?? one.probe;
  const why = may
    ? null
    : "Probing needs the right to act: open the console on the server's own machine, or with --console-key.";
  return html`<div class="probe"><button type="button" disabled=${!may || told.busy} title=${why} onClick=${probe}>
    ${told.busy ? "Probing ..." : "Probe"}</button>
    <div role="status">${told.error ? html`<p class="notes bad">${told.error.message}</p>` : made && html`<${Probed}
      made=${made} one=${one} />`}</div>
    ${why && html`<p class="dim">${why}</p>`}</div>`;
}

/** @param {{ made: any, one: Endpoint }} props */
function Probed({ made, one }) {
  const models = made.models ?? [];
  return html`<p class=${`notes${made.well ? " good" : " bad"}`}>${made.line}
    ${(made.others ?? []).map((/** @type {string} */ line) => html`<br />${line}`)}
      ${made.well && made.model_is_listed === false && one.model && html` <b>${one.model}
      </b> is not in its list of models.`}</p>
    ${models.length > 0 && html`<details><summary>${models.length === 200 ? "the first 200 models"
      : counted(models.length, "model")}</summary><p class="models">${models.join(", ")}</p></details>`}`;
}
