// @ts-check
// The tree of workflow files: those of each served user, shared ones, common ones, and what nobody names (folded).
import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { Mark } from "./parts.js";
import { counted } from "./words.js";
import { addressOf } from "./workflow_place.js";

/** @typedef {import("./workflow_types.js").TreeFile} TreeFile @typedef {import("./workflow_types.js").WorkflowTree} WorkflowTree */

const START = "_DefaultWorkflow";

/** @param {{tree: WorkflowTree, path: string, user: string | null, make: (() => void) | null}} props `make`: begins a new file */
export function Tree({ tree, path, user, make }) {
  const [wanted, setWanted] = useState("");
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => box.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" }), [path, user]);
  const fits = (/** @type {TreeFile[]} */ files) => files.filter(({ path: file }) => file.toLowerCase().includes(wanted.trim().toLowerCase()));
  const part = (/** @type {string} */ title, /** @type {TreeFile[]} */ files, /** @type {string | null} */ whose) => {
    const shown = ordered(fits(files));
    return shown.length > 0 && html`<h2>${title}</h2>
      <ul role="list" aria-label=${title}>${shown.map((file) => html`<${File} key=${file.path} file=${file} whose=${whose} open=${file.path === path && (!user || !whose || user === whose)} />`)}</ul>`;
  };
  const other = fits(tree.other);
  return html`<nav class="tree" ref=${box} aria-label="Workflow files">
    <div class="treebar"><input type="search" data-search placeholder="Find ( / )" aria-label="Find a file by its name" value=${wanted}
        onInput=${(/** @type {any} */ event) => setWanted(event.target.value)} />
      <button type="button" onClick=${make ?? undefined} disabled=${!make} title=${make ? undefined : "Start with --console edit to make files from here."}>New</button></div>
    ${tree.users.map(({ name, files }) => part(name, files, name))}
    ${tree.shared.map(({ folder, model, files }) => part(`shared: ${model || folder}`, files, null))}
    ${part("common", tree.common, null)}
    ${other.length > 0 && html`<details open=${wanted !== "" || other.some((file) => file.path === path)}><summary>other (${other.length})</summary>
      <ul role="list" aria-label="other">${other.map((file) => html`<${File} key=${file.path} file=${file} whose=${null} open=${file.path === path} />`)}</ul></details>`}
    ${wanted && !holdsAny(tree, fits) && html`<p class="dim none">No file fits.</p>`}
  </nav>`;
}

/** @param {WorkflowTree} tree @param {(files: TreeFile[]) => TreeFile[]} fits */
const holdsAny = (tree, fits) => filesOf(tree).some((file) => fits([file]).length > 0);

/** Every file of the tree. @param {WorkflowTree} tree @returns {TreeFile[]} */
export const filesOf = ({ users, shared, common, other }) => [...users.flatMap(({ files }) => files), ...shared.flatMap(({ files }) => files), ...common, ...other];

/** The workflow that answers first stands first. @param {TreeFile[]} files */
export const ordered = (files) => [...files].sort((a, b) => Number(b.name === START) - Number(a.name === START));

/** @param {{file: TreeFile, whose: string | null, open: boolean}} props */
function File({ file, whose, open }) {
  const { name, kind, errors, warnings, unused, last } = file;
  const bad = last && ["failed", "cancelled"].includes(last.state);
  return html`<li><a href=${addressOf({ path: file.path, user: whose })} aria-current=${open ? "page" : undefined}>
    <span class="fname">${name}</span>
    ${name === START && html`<span class="word">start</span>`}
    ${kind !== "workflow" && html`<span class="word">${kind}</span>`}
    ${unused && html`<span class="word">unused</span>`}
    <span class="counts">${bad && html`<${Mark} state=${last.state} />`}
      ${errors > 0 && html`<span class="cnt" title=${counted(errors, "error")}><span aria-hidden="true">✕ </span>${errors}<span class="unseen"> ${errors === 1 ? "error" : "errors"}</span></span>`}
      ${warnings > 0 && html`<span class="cnt w" title=${counted(warnings, "warning")}><span aria-hidden="true">▲ </span>${warnings}<span class="unseen"> ${warnings === 1 ? "warning" : "warnings"}</span></span>`}</span>
  </a></li>`;
}
