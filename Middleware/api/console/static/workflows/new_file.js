// @ts-check
// A new workflow file: where, what it is called, and which template it begins with.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { ask } from "../shared/server.js";
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
