// @ts-check
// A user or a workflow as a file for others, and such a file as a new user: what `--pack` and `--unpack` do.
import { html, useEffect, useState } from "../vendor/preact.js";
import { ask, opened } from "../shared/server.js";
import { counted } from "../shared/words.js";

/** @typedef {import("./workflow_types.js").WorkflowTree} WorkflowTree */
/** @typedef {import("./workflow_types.js").PackTold} PackTold */

/** @param {{tree: WorkflowTree, user: string | null, close: () => void}} props `user`: who is chosen at first */
export function PackForm({ tree, user, close }) {
  const [told, setTold] = useState({ error: "", file: "", notes: /** @type {string[]} */ ([]) });
  const pack = async (/** @type {any} */ event) => {
    event.preventDefault();
    const name = String(new FormData(event.currentTarget).get("name"));
    try {
      const answer = await opened("pack", { method: "POST", body: { name } });
      const file = `${name.replaceAll(/[:/]/g, "-")}.pack.zip`;
      download(await answer.blob(), file);
      setTold({ error: "", file, notes: JSON.parse(answer.headers.get("X-Headrace-Notes") ?? "[]") });
    } catch (reason) {
      setTold({ error: /** @type {Error} */ (reason).message, file: "", notes: [] });
    }
  };
  return html`<form class="newfile" aria-label="Pack" onSubmit=${pack}>
    <h1>Pack</h1>
    <p>Writes one file with a user, or one of its workflows, and everything that it needs, so that other people can
      use it. Keys, folders and endpoints are left out.</p>
    <label>What <select name="name" defaultValue=${user ?? tree.users[0]?.name}>${choicesOf(tree).map(
      ([value, words]) => html`<option value=${value}>${words}</option>`,
    )}</select></label>
    ${told.error && html`<p class="notes bad" role="alert">${told.error}</p>`}
    ${told.file && html`<p role="status">Downloaded ${told.file}.</p><${Lines} lines=${told.notes} />`}
    <p class="acts"><button class="main">Download</button><button type="button" data-back
      onClick=${close}>Close</button></p>
  </form>`;
}

/** Users, and behind each its workflows. @param {WorkflowTree} tree @returns {string[][]} */
const choicesOf = ({ users }) =>
  users.flatMap(({ name, files }) => [
    [name, `${name}: everything`],
    ...files
      .filter(({ kind }) => kind === "workflow")
      .map((file) => [`${name}:${file.name}`, `${name}: workflow ${file.name}`]),
  ]);

/** @param {Blob} blob @param {string} name */
function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href));
}

/** @param {{made: () => void, close: () => void}} props `made`: the tree has new files */
export function UnpackForm({ made, close }) {
  const [file, setFile] = useState(/** @type {File | null} */ (null));
  const [wish, setWish] = useState({ prefix: "", roles: /** @type {Record<string, string>} */ ({}) });
  const [told, setTold] = useState(/** @type {PackTold | null} */ (null));
  const [error, setError] = useState(/** @type {{message: string, lines: string[]} | null} */ (null));
  const [busy, setBusy] = useState(false);
  const send = async (/** @type {boolean} */ writes, /** @type {AbortSignal | undefined} */ signal = undefined) => {
    if (!file) return;
    setBusy(true);
    try {
      const answer = await ask("unpack", { method: "POST", file, query: queryOf(wish, writes), signal });
      setTold(answer);
      setError(null);
      if (writes) made();
    } catch (reason) {
      const { name, message, data } = /** @type {any} */ (reason);
      if (name === "AbortError") return;
      setError({ message, lines: data?.programs ?? data?.problems ?? [] });
      if (!writes) setTold(null);
    }
    setBusy(false);
  };
  useEffect(() => {
    const stop = new AbortController();
    send(false, stop.signal);
    return () => stop.abort();
  }, [file, wish]);
  const choose = (/** @type {any} */ event) => {
    setTold(null);
    setError(null);
    setWish({ prefix: "", roles: {} });
    setFile(event.target.files[0] ?? null);
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    send(true);
  };
  return html`<form class="newfile" aria-label="Unpack" onSubmit=${submit} aria-busy=${busy}>
    <h1>Unpack</h1>
    <p>Adds a pack to your configuration, as a new user. Files that are there are never changed.</p>
    <label>Pack <input type="file" accept=".zip" onChange=${choose} required disabled=${told?.written} /></label>
    ${error && html`<div class="notes bad" role="alert"><p>${error.message}</p><${Lines} lines=${error.lines} /></div>`}
    ${file && !told?.written && html`<label>Prefix <input value=${wish.prefix} placeholder="none"
      onChange=${(/** @type {any} */ event) => setWish({ ...wish, prefix: event.target.value.trim() })} /></label>`}
    ${told && html`<${Told} told=${told} pick=${(/** @type {string} */ role, /** @type {string} */ endpoint) =>
      setWish({ ...wish, roles: { ...wish.roles, [role]: endpoint } })} />`}
    <p class="acts">${!told?.written && html`<button class="main" disabled=${busy || !told || told.why !== ""}>Unpack
      </button>`}<button type="button" data-back onClick=${close}>${told?.written ? "Close" : "Cancel"}</button></p>
  </form>`;
}

/** @param {{prefix: string, roles: Record<string, string>}} wish @param {boolean} writes */
const queryOf = ({ prefix, roles }, writes) =>
  new URLSearchParams([
    ...Object.entries(roles).map(([role, endpoint]) => ["map", `${role}=${endpoint}`]),
    ...(prefix ? [["prefix", prefix]] : []),
    ...(writes ? [["write", "1"]] : []),
  ]);

/** @param {{told: PackTold, pick: (role: string, endpoint: string) => void}} props */
function Told({ told, pick }) {
  const { name, version, roles, extras, environment, files, unchanged, notes, why, written } = told;
  const needs = [
    ...extras.map((one) => `It needs the extra ${one}.`),
    ...environment.map((one) => `It needs the environment variable ${one}.`),
  ];
  return html`<p class="dim">${name}, packed by version ${version}</p>
    ${roles.map(
      (one) => html`<label>Endpoint for ${one.role} (${one.abilities.join(", ")}${one.model
        && `; its author used ${one.model}`}) <select value=${one.endpoint} disabled=${written}
          onChange=${(/** @type {any} */ event) => pick(one.role, event.target.value)}>${one.endpoints.map(
            (endpoint) => html`<option>${endpoint}</option>`,
          )}</select></label>`,
    )}
    <${Lines} lines=${[...needs, ...notes]} />
    ${why && html`<p class="notes bad" role="alert">${why}</p>`}
    ${files.length > 0 && html`<p role="status">${written ? "Wrote" : "Would write"}${" "}
      ${counted(files.length, "file")}, as user ${told.new_user}:</p><${Lines} lines=${files} />`}
    ${unchanged.length > 0 && html`<p class="dim">Already there: ${counted(unchanged.length, "file")}</p>`}
    ${written && html`<p>To use it, start the server with <code>--User ${told.new_user}</code>.</p>`}`;
}

/** @param {{lines: string[]}} props */
const Lines = ({ lines }) => lines.length > 0 && html`<ul>${lines.map((line) => html`<li>${line}</li>`)}</ul>`;
