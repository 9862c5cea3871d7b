// @ts-check
// Forms in place of the open file: a new workflow (where, what it is called, which template it begins with), and packs.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { ask, opened } from "../shared/server.js";
import { counted } from "../shared/words.js";
import { addressOf, nameOf } from "./workflow_place.js";

/** @typedef {import("./workflow_types.js").WorkflowTree} WorkflowTree */

/** Templates of the server, each with its line and how many nodes stand in each of its rows.
 * @type {[string, string, number[]][]} */
const TEMPLATES = [
  ["chat", "one model answers the conversation", [1]],
  ["draft-critic-answer", "a draft, a critic, and the corrected answer", [1, 1, 1]],
  ["parallel", "two nodes read the message at the same time, and a third answers", [2, 1]],
  ["branch", "a model sorts the message, and the workflow that fits continues", [1, 1]],
  ["router", "a model names the subject, and the workflow for it answers", [1, 1]],
  ["agent", "a model that looks things up on the web before it answers", [1]],
  ["memory", "a summary of the chat is read before the answer and rewritten after it", [1, 1, 1, 1]],
  ["empty", "one node with a fixed text, without a model", [1]],
];

/**
 * @param {{tree: WorkflowTree, path: string | null, user: string | null, made: () => void, close: () => void}} props
 *   `path`: the open file, which may be copied
 */
export function NewFile({ tree, path, user, made, close }) {
  const folders = foldersOf(tree);
  const [error, setError] = useState("");
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => field.current?.focus(), []);
  const make = async (/** @type {any} */ event) => {
    event.preventDefault();
    const { folder, name, template, endpoint } = /** @type {Record<string, string>} */ (
      Object.fromEntries(new FormData(event.currentTarget))
    );
    const wanted = `Workflows/${folder}/${name.trim().replace(/\.json$/, "")}.json`;
    try {
      const file = await ask("workflows", {
        method: "POST",
        body: { path: wanted, template, endpoint: endpoint.trim() },
      });
      made();
      location.hash = addressOf({ path: file.path, node: 1,
        user: folders.find((one) => one.folder === folder)?.whose });
    } catch (reason) {
      setError(/** @type {Error} */ (reason).message);
    }
  };
  const begins = [
    ...TEMPLATES.map(([name, line, rows]) => ({ value: name, name, line, rows })),
    ...(path ? [{ value: `copy:${path}`, name: "copy", line: `a copy of ${nameOf(path)}`, rows: [] }] : []),
  ];
  return html`<form class="newfile" aria-label="New workflow" onSubmit=${make}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && close()}>
    <h1>New workflow</h1>
    <label>Folder <input name="folder" list="folders"
      defaultValue=${(folders.find(({ whose }) => whose === user) ?? folders[0]).folder} required /></label>
    <datalist id="folders">${folders.map(({ folder }) => html`<option value=${folder} />`)}</datalist>
    <label>Name <input name="name" ref=${field} required pattern="[^\\/]+" /></label>
    <fieldset><legend>Start with</legend>
      ${begins.map(
        ({ value, name, line, rows }, at) => html`<label class="choice">
          <input type="radio" name="template" value=${value}
          defaultChecked=${at === 0} />
        <span><b>${name}</b> <span class="dim">${line}</span></span>
        <span class="rows" aria-hidden="true">${rows.map((count) => html`<i>${Array.from({ length: count },
          () => html`<b></b>`)}</i>`)}</span></label>`,
      )}</fieldset>
    <label>Endpoint <input name="endpoint" placeholder="the user's first one" /></label>
    ${error && html`<p class="notes bad" role="alert">${error}</p>`}
    <p class="acts"><button class="main">Create</button><button type="button" data-back
      onClick=${close}>Cancel</button></p>
  </form>`;
}

/** Where a new file may stand. @param {WorkflowTree} tree @returns {{folder: string, whose?: string}[]} */
const foldersOf = ({ users, shared }) => [
  ...users.map(({ name, folder }) => ({ folder, whose: name })),
  ...shared.map(({ folder }) => ({ folder })),
  { folder: "_common" },
];

// --- packs: a user or a workflow as a file for others, and such a file as a new user: what `--pack` and `--unpack` do

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
