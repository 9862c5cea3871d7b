// @ts-check
// Find servers: which model servers answer, and an endpoint file for one of them. Nothing is asked but by a click.
import { html, useEffect, useId, useRef, useState } from "../vendor/preact.js";
import { pathInAddress } from "../shared/address.js";
import { useAsked } from "../shared/asked.js";
import { FileLink } from "../shared/parts.js";
import { ask, hasRight, needsKey } from "../shared/server.js";
import { counted, listed, number, seconds, sentence } from "../shared/words.js";
import { withValues } from "../workflows/json_edit.js";

/**
 * @typedef {{kind: string, version: string | null, url: string, models: string[], used_by: string[],
 *   api_type: string | null, wants_key: boolean, model: string | null, key_env: string | null, file: string | null}}
 *   FoundServer
 * @typedef {{servers: FoundServer[], asked: string[], took_s: number}} Found
 * @typedef {{hosts: string[], folders: {folder: string, user: string}[], demo: string[]}} Places
 * @typedef {{path: string, user: string, name: string}} Made
 */

/** Searches begin no more often than this. */
const SPACING_MS = 5000;
const SHOWN_MODELS = 4;

/** @param {{changed?: () => void}} props `changed`: a file was written */
export function FindServers({ changed }) {
  const { data: places, error: unknown } = /** @type {import("../shared/asked.js").Asked<Places>} */ (useAsked("find"));
  const [found, setFound] = useState(/** @type {Found | null} */ (null));
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [resting, setResting] = useState(false);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const clock = useRef(0);
  const may = hasRight("act");
  // A host that came into the field later would be joined to what is typed.
  const waits = !places && !unknown;
  const search = async (/** @type {string[]} */ hosts) => {
    clock.current = -1;
    setBusy(true);
    try {
      setFound(await ask("find", { method: "POST", body: { hosts } }));
      setError(null);
    } catch (reason) {
      setError(/** @type {Error} */ (reason));
    }
    setBusy(false);
    setResting(true);
    clock.current = setTimeout(() => setResting(false), SPACING_MS);
  };
  // In a container nothing listens at 127.0.0.1: there the host's name is offered first, to be sent or not.
  useEffect(() => {
    if (places && may && !places.hosts.length && !clock.current) search([]);
  }, [places !== null]);
  useEffect(() => () => clearTimeout(clock.current), []);
  const again = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (may && !busy && !resting && !waits) search((field.current?.value ?? "").split(/[\s,]+/).filter(Boolean));
  };
  return html`<section class="find" aria-label="Servers found">
    <form class="findbar" onSubmit=${again}><p role="status">${busy ? "Asking ..." : found && whatWasAsked(found)}</p>
      <label>other hosts <input type="text" ref=${field} spellcheck="false" placeholder="box, box:8080"
        disabled=${waits} defaultValue=${places?.hosts.join(" ") ?? ""} /></label>
      <button aria-disabled=${!may || busy || resting || waits} title=${resting ? "once in five seconds" : undefined}>
      ${found ? "Ask again" : "Ask"}</button></form>
    ${!may && html`<p class="dim">${needsKey("Asking")}</p>`}
    ${error && html`<p class="notes bad" role="alert">${sentence(error.message)}</p>`}
    ${
      found &&
      html`<ul class="found">${found.servers.map((server) => html`<${Server} key=${server.url} server=${server}
      places=${places} changed=${changed} />`)}</ul>`
    }
    <p class="dim">Only 127.0.0.1 at the usual ports and the hosts that you name are asked, and only when you press the
      button.</p>
  </section>`;
}

/** @param {Found} found */
const whatWasAsked = ({ servers, asked, took_s: took }) =>
  html`<b>${counted(servers.length, "server")}</b> <span
    class="dim">${number(asked.length)} ${asked.length === 1 ? "address" : "addresses"} asked,
    in ${seconds(took)}</span>`;

/** @param {{server: FoundServer, places: Places | null, changed?: () => void}} props */
function Server({ server, places, changed }) {
  const [open, setOpen] = useState(false);
  const { kind, version, url, models, used_by: users, wants_key: closed, file } = server;
  const more = models.length > SHOWN_MODELS ? `and ${models.length - SHOWN_MODELS} more` : "";
  const told = listed(...models.slice(0, SHOWN_MODELS), more, closed && "wants a key");
  return html`<li><div class="foundline"><b>${kind} ${version ?? ""}</b><code>${url}</code>
      <span class="dim models" title=${models.join(", ")}>${told}</span>
      ${
        !file
          ? html`<span class="dim">another Headrace</span>`
          : html`<button type="button" aria-expanded=${open}
          onClick=${() => setOpen(!open)}>${closed ? "Use with a key" : "Use"}</button>`
      }</div>
    ${users.length > 0 && html`<p class="dim">in use as ${users.map((path, at) => html`${at ? ", " : ""}<${FileLink}
      path=${path} />`)}</p>`}
    ${open && places && html`<${Use} server=${server} places=${places} changed=${changed} />`}</li>`;
}

/** @param {{server: FoundServer, places: Places, changed?: () => void}} props */
function Use({ server, places, changed }) {
  const may = hasRight("save");
  const id = useId();
  const [error, setError] = useState("");
  const [made, setMade] = useState(/** @type {Made | null} */ (null));
  const [line, setLine] = useState(/** @type {{well: boolean, line: string} | null} */ (null));
  const [busy, setBusy] = useState(false);
  const write = async (/** @type {any} */ event) => {
    event.preventDefault();
    const wish = /** @type {Record<string, string>} */ (Object.fromEntries(new FormData(event.currentTarget)));
    setBusy(true);
    setError("");
    try {
      const file = await (wish.place.endsWith(".json") ? replaceDemo : makeFile)(server, wish, places);
      setMade(file);
      changed?.();
      const probe = `endpoints/${encodeURIComponent(file.user)}/${encodeURIComponent(file.name)}/probe`;
      setLine(await ask(probe, { method: "POST", body: {} }));
    } catch (reason) {
      setError(/** @type {Error} */ (reason).message);
    }
    setBusy(false);
  };
  if (made)
    return html`<p class="notes good" role="status"><${FileLink} path=${made.path} /> is written.
      ${line ? html` <span class=${line.well ? "" : "trouble"}>${line.line}</span>` : error ? ` ${sentence(error)}`
        : " Probing it ..."}</p>`;
  if (!may)
    return html`<p>Start the server with --console edit to write this file from here, or save it yourself as
      ${" "}<code>${places.folders[0]?.folder ?? "Endpoints"}/${nameFor(server)}.json</code>:</p>
      <pre tabindex="0">${server.file}</pre>`;
  return html`<form class="usefile" aria-label=${`Use ${server.kind}`} onSubmit=${write}>
    <label>Where <select name="place">${places.folders.map(({ folder, user }) => html`<option value=${folder}>
        a new file in ${folder}, for ${user}</option>`)}
      ${server.wants_key ? null : places.demo.map((path) => html`<option value=${path}>
        in place of the built-in model: ${path}</option>`)}</select></label>
    <label>Name <input name="name" required pattern="[^\\/]+" defaultValue=${nameFor(server)} /></label>
    <label>Model <input name="model" list=${id} defaultValue=${server.model ?? ""} /></label>
    <datalist id=${id}>${server.models.map((name) => html`<option value=${name} />`)}</datalist>
    ${
      server.wants_key &&
      html`<label>Environment variable with its key <input name="key_env" required pattern="[A-Z_][A-Z0-9_]*"
      defaultValue=${server.key_env ?? ""} /></label>`
    }
    ${error && html`<p class="notes bad" role="alert">${sentence(error)}</p>`}
    <p class="acts"><button class="main" disabled=${busy}>Write the file</button></p></form>`;
}

/** What a file for it may be called. @param {FoundServer} server */
const nameFor = ({ kind }) => (kind.startsWith("OpenAI") ? "Local" : kind.replace(/[^A-Za-z0-9]/g, ""));

/** @param {FoundServer} server @param {Record<string, string>} wish @returns {Promise<Made>} */
function makeFile(server, { place, name, model, key_env }) {
  const path = `${place}/${name.trim().replace(/\.json$/, "")}.json`;
  const key = key_env ? { key_env } : {};
  return ask("endpoints", {
    method: "POST",
    body: { path, url: server.url, api_type: server.api_type, model: model.trim(), ...key },
  });
}

/**
 * The three fields that make the built-in model a real one; all else of the file stays.
 * @param {FoundServer} server @param {Record<string, string>} wish @param {Places} places @returns {Promise<Made>}
 */
async function replaceDemo(server, { place: path, model }, { folders }) {
  const { text, version } = await ask(`files/${pathInAddress(path)}`);
  const values = {
    endpoint: server.url,
    apiTypeConfigFileName: server.api_type,
    modelNameToSendToAPI: model.trim(),
  };
  await ask(`files/${pathInAddress(path)}`, { method: "PUT", body: { text: withValues(text, values), version } });
  const whose = folders.find(({ folder }) => path.startsWith(`${folder}/`));
  const name = path.slice((whose?.folder ?? "Endpoints").length + 1).replace(/\.json$/, "");
  return { path, user: whose?.user ?? "", name };
}
