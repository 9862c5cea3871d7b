// @ts-check
// Endpoints: one card a model server, its state in words, what it did, and a probe.
import { html, useEffect, useState } from "../vendor/preact.js";
import { useAsked } from "../shared/asked.js";
import { Facts, Failed, FileLink, Mark, Missing } from "../shared/parts.js";
import { useFinder } from "../shared/finder.js";
import { Plot } from "../shared/plot.js";
import { ask, hasRight, needsKey, runs } from "../shared/server.js";
import { clock, counted, isActive, listed, loadedWords, number, seconds, shareWords } from "../shared/words.js";
import { MARKS, NOT_CALLED, stateWords } from "./state_words.js";

/**
 * @typedef {{ user: string, name: string, users: string[],
 *   file: string, type: string, backend: string, url: string, model: string,
 *   embeddings: boolean,
 *   gate: { limit: number, running: number, waiting: number } | null, state: "well" | "failing" | "quiet", since:
 *   number | null,
 *   last_error: { at: number, kind: string, text: string, advice: string } | null, calls: [number, number | null,
 *   number | null, boolean][],
 *   median: { first_s: number | null, rate: number | null }, held: number | null, used_by: string[], probe: any,
 *   affects: { user: string, names: string[] }[],
 *   addresses: Address[] }} Endpoint */
/**
 * One of several addresses.
 * @typedef {{ url: string, state: "well" | "failing" | "quiet", since: number | null, calls: number, failed: number,
 *   running: number, out_s: number }} Address
 */

/** @typedef {{ user: string, name: string, places: import("../shared/types.js").LoadedPlace[] }} LoadedThere */

/** @param {{place: import("../shared/types.js").Place}} props */
export function Page({ place }) {
  const { data, error, again } = useAsked("endpoints", 10);
  const loaded = useAsked("loaded", 10).data?.loaded ?? [];
  const { button, servers } = useFinder("right", again);
  const ended = [...runs.value.values()].filter((run) => !isActive(run)).length;
  useEffect(() => {
    const soon = setTimeout(again, 300);
    return () => clearTimeout(soon);
  }, [ended]);
  const of = CSS.escape(place.query.get("of") ?? "");
  useEffect(() => document.querySelector(`[data-of~="${of}"]`)?.scrollIntoView(), [!data]);
  if (!data) return html`<${Missing} error=${error} again=${again} />`;
  const all = /** @type {Endpoint[]} */ (data.endpoints);
  const cards = (/** @type {Endpoint[]} */ some) =>
    html`<ul class="cards">${some.map((one) => html`<${Card} key=${one.file} one=${one} again=${again}
      loaded=${loaded.find((/** @type {LoadedThere} */ each) => one.users.includes(each.user)
        && each.name === one.name)} there=${all.filter((each) => each.url === one.url && each !== one)} />`)}</ul>`;
  const unused = all.filter((one) => !isUsed(one));
  const names = new Set(unused.map(({ name }) => name));
  return html`<div class="page">
    <div class="pagehead"><h1>Endpoints</h1><span class="dim">${health(all)}</span>${button}</div>
    ${error && html`<${Failed} error=${error} again=${again} />`}
    ${servers}
    ${!all.length && html`<p>No workflow names an endpoint yet. <a href="#/help/models">How to name one</a></p>`}
    ${cards(all.filter(isUsed))}
    ${
      unused.length > 0 &&
      html`<details class="unused" open=${unused.length === all.length}>
      <summary>${number(unused.length)} not called yet: <span class="dim">${listed(...names)}</span></summary>
      ${cards(unused)}</details>`
    }
  </div>`;
}

/**
 * Claims that something is known of it: it was called or probed, or its file is broken.
 * @param {Endpoint} one
 */
const isUsed = (one) => one.state !== "quiet" || one.probe !== null || one.last_error !== null;

/** `1 failing, 3 well, 4 not called yet`. @param {{state: Endpoint["state"]}[]} all */
export function health(all) {
  const count = (/** @type {Endpoint["state"]} */ wanted) => all.filter(({ state: its }) => its === wanted).length;
  const [down, well, quiet] = [count("failing"), count("well"), count("quiet")];
  return listed(down && `${number(down)} failing`, well && `${number(well)} well`, quiet &&
    `${number(quiet)} not called yet`);
}

/** How one of several addresses is. @param {Address} one */
export function addressWords(one) {
  const made = one.calls
    ? `${one.state}, ${counted(one.calls, "call")}${one.failed ? `, ${number(one.failed)} failed` : ""}`
    : NOT_CALLED;
  return listed(
    made,
    one.running && `${number(one.running)} running`,
    one.out_s && `left out for ${seconds(one.out_s)}`,
  );
}

/** How another one of the same address is. @param {Endpoint} other */
const stateOf = ({ state, affects }) =>
  state === "quiet"
    ? listed(NOT_CALLED, affects.length && `would affect ${affects.flatMap(({ names }) => names).join(", ")}`)
    : state;

/**
 * @param {{ one: Endpoint, again: () => void, loaded: LoadedThere | undefined, there: Endpoint[] }} props `there`: the
 *   others of the same address
 */
function Card({ one, again, loaded, there }) {
  const title = `endpoint-${one.file}`;
  const { gate, last_error: error } = one;
  const fails = one.state === "failing";
  const told = error && html`<p class=${`notes${fails ? " bad" : ""}`}>${one.state === "well"
    && "last failure "}<b>${clock(error.at)}</b> ${error.text || error.kind}
    ${error.advice && html`<span class="advice">Next: ${error.advice.split("`").map((piece, at) => (at % 2
      ? html`<code>${piece}</code>` : piece))}</span>`}</p>`;
  const facts = [
    [
      "affects",
      error && listed(...one.affects.map(({ user, names }) => `${user} (${names.join(", ")})`)),
      "users, and the model names whose requests may need it",
    ],
    one.addresses.length
      ? [
          "addresses",
          html`<ul class="addresses">${one.addresses.map((each) => html`<li key=${each.url}><code>${each.url}
            </code> <span class="dim">${addressWords(each)}</span></li>`)}</ul>`,
        ]
      : ["address", html`<code>${one.url || "built in"}</code>`],
    [
      "same address",
      fails &&
        one.url !== "" &&
        listed(...there.map((other) => `${other.name} of ${other.users.join(", ")} (${stateOf(other)})`)),
    ],
    ["model", `${one.model || "the server's own"}${one.embeddings ? ", for embeddings" : ""}`],
    ["type", `${one.type}${one.backend && one.backend !== one.type ? ` (${one.backend})` : ""}`],
    [
      "loaded",
      loaded &&
        html`<ul class="addresses">${loaded.places.map((place) => html`<li key=${place.url}>
          ${loaded.places.length > 1 && html`<code>${place.url}</code> `}${loadedWords(place)}</li>`)}</ul>`,
      "what its server has in memory now",
    ],
    ["users", one.users.length > 1 && one.users.join(", ")],
    ["slots", gate && `${gate.running} of ${gate.limit} in use, ${gate.waiting} waiting`],
    [
      "prompts",
      one.held !== null && `${shareWords(one.held)}, over the last hour`,
      "what its server still held",
    ],
  ];
  return html`<li class=${`endpoint ${one.state}`} aria-labelledby=${title}
    data-of=${one.users.map((user) => `${user}/${one.name}`).join(" ")}>
    <div class="ehead">
      <h2 id=${title}>${one.name}</h2><span class="dim">${one.users.length === 1 ? one.user : ""}</span>
      <span class=${`state ${MARKS[one.state]}`}>${one.state !== "quiet" && html`<${Mark}
        state=${MARKS[one.state]} />`} ${stateWords(one)}</span>
    </div>
    ${fails && told}
    <${Facts} facts=${facts} />
    ${one.calls.length > 0 && html`<${Calls} one=${one} />`}
    ${!fails && told}
    <${Probe} one=${one} again=${again} />
    <p class="usedby dim">used by ${one.used_by.length ? one.used_by.map((path, at) => html`${at ? ", "
      : ""}<${FileLink} path=${path} />`) : "no workflow"}</p>
  </li>`;
}

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
  const may = hasRight("act");
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
  const why = may ? null : needsKey("Probing");
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
