// @ts-check
// A new workflow file: where, what it is called, and which template it begins with.
import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { ask } from "./server.js";
import { addressOf, nameOf } from "./workflow_place.js";

/** @typedef {import("./workflow_types.js").WorkflowTree} WorkflowTree */

/** Templates of the server, each with its line. */
const TEMPLATES = [
  ["chat", "one model answers, with the conversation as it is"],
  ["draft-critic-answer", "a draft, a critic who names its faults, and the answer that mends them"],
  ["parallel", "two nodes look at the message at the same time; the third answers"],
  ["branch", "a model sorts the message, and the workflow that fits goes on"],
  ["empty", "one node that says a fixed text, without a model"],
];

/** @param {{tree: WorkflowTree, path: string | null, user: string | null, made: () => void, close: () => void}} props `path`: the open file, which may be copied */
export function NewFile({ tree, path, user, made, close }) {
  const folders = foldersOf(tree);
  const [folder, setFolder] = useState(folders.find(({ whose }) => whose === user)?.folder ?? folders[0]?.folder ?? "");
  const [name, setName] = useState("");
  const [template, setTemplate] = useState("chat");
  const [endpoint, setEndpoint] = useState("");
  const [error, setError] = useState("");
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => field.current?.focus(), []);
  const make = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const wanted = `Workflows/${folder}/${name.trim().replace(/\.json$/, "")}.json`;
    try {
      const file = await ask("workflows", { method: "POST", body: { path: wanted, template, ...(endpoint.trim() ? { endpoint: endpoint.trim() } : {}) } });
      made();
      location.hash = addressOf({ path: file.path, user: folders.find((one) => one.folder === folder)?.whose ?? null }).slice(1);
    } catch (reason) {
      setError(/** @type {Error} */ (reason).message);
    }
  };
  const write = (/** @type {(value: string) => void} */ set) => (/** @type {any} */ event) => set(event.target.value);
  return html`<form class="newfile" aria-label="New workflow" onSubmit=${make} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && close()}>
    <h1>New workflow</h1>
    <label>Folder <input list="folders" value=${folder} onInput=${write(setFolder)} required /></label>
    <datalist id="folders">${folders.map((one) => html`<option value=${one.folder} />`)}</datalist>
    <label>Name <input ref=${field} value=${name} onInput=${write(setName)} required pattern="[^\\/]+" /></label>
    <fieldset><legend>Begin with</legend>
      ${[...TEMPLATES, ...(path ? [[`copy:${path}`, `a copy of ${nameOf(path)}`]] : [])].map(([value, line]) => html`<label class="choice">
        <input type="radio" name="template" value=${value} checked=${template === value} onChange=${() => setTemplate(value)} />
        <span><b>${value.startsWith("copy:") ? "copy" : value}</b> <span class="dim">${line}</span></span></label>`)}</fieldset>
    <label>Endpoint <input value=${endpoint} onInput=${write(setEndpoint)} placeholder="the user's first one" /></label>
    ${error && html`<p class="notes bad" role="alert">${error}</p>`}
    <p class="acts"><button class="main">Make it</button><button type="button" data-back onClick=${close}>Leave it</button></p>
  </form>`;
}

/** Where a new file may stand. @param {WorkflowTree} tree @returns {{folder: string, whose: string | null}[]} */
export function foldersOf({ users, shared }) {
  const own = users.map(({ name, folder }) => ({ folder, whose: /** @type {string | null} */ (name) }));
  const others = [...shared.map(({ folder }) => folder), "_common"].map((folder) => ({ folder, whose: null }));
  return [...own, ...others];
}
