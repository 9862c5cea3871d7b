// @ts-check
// The tree of workflow files: those of each served user, shared ones, common ones, and what nobody names (folded).
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { Mark } from "../shared/parts.js";
import { counted } from "../shared/words.js";
import { NAMES, addressOf } from "./workflow_place.js";

/**
 * @typedef {import("./workflow_types.js").TreeFile} TreeFile
 * @typedef {import("./workflow_types.js").WorkflowTree} WorkflowTree
 */

/** @type {["new" | "pack" | "unpack", string, string][]} */
const FORMS = [
  ["new", "New", "create files here"],
  ["pack", "Pack", "pack workflows"],
  ["unpack", "Unpack", "unpack workflows"],
];

/**
 * @param {{tree: WorkflowTree, path: string, user: string | null,
 *   begin: ((form: "new" | "pack" | "unpack") => void) | null}} props `begin`: a new file, or a pack
 */
export function Tree({ tree, path, user, begin }) {
  const [wanted, setWanted] = useState("");
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => box.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" }), [path, user]);
  const fits = (/** @type {TreeFile} */ file) => file.path.toLowerCase().includes(wanted.trim().toLowerCase());
  const list = (
    /** @type {string} */ title,
    /** @type {TreeFile[]} */ files,
    /** @type {string | null} */ whose = null,
  ) =>
    html`<ul role="list" aria-label=${title}>${ordered(files).map((file) => html`<${File} key=${file.path} file=${file}
      whose=${whose} open=${file.path === path && (!user || !whose || user === whose)} />`)}</ul>`;
  const part = (
    /** @type {string} */ title,
    /** @type {TreeFile[]} */ files,
    /** @type {string | null} */ whose = null,
  ) => files.some(fits) && html`<h2>${title}</h2>${list(title, files.filter(fits), whose)}`;
  const other = tree.other.filter(fits);
  return html`<nav class="tree" ref=${box} aria-label="Workflow files">
    <div class="treebar"><input type="search" data-search placeholder="Find ( / )" aria-label="Find a file by its name"
      value=${wanted}
        onInput=${(/** @type {any} */ event) => setWanted(event.target.value)} />
      ${FORMS.map(([form, words, why]) => html`<button type="button" onClick=${() => begin?.(form)} disabled=${!begin}
        title=${begin ? undefined : `Start the server with --console edit to ${why}.`}>${words}</button>`)}</div>
    ${!wanted && html`<a class="namesline" href=${`#/${NAMES}`} aria-current=${path ? null : "page"}>Model names</a>`}
    ${tree.users.map(({ name, files }) => part(name, files, name))}
    ${tree.shared.map(({ folder, model, files }) => part(`shared: ${model || folder}`, files))}
    ${part("common", tree.common)}
    ${other.length > 0 && html`<details open=${wanted !== "" || other.some((file) => file.path === path)}>
    <summary>other (${other.length})</summary>${list("other", other)}</details>`}
    ${wanted && !filesOf(tree).some(fits) && html`<p class="dim none">No file matches.</p>`}
  </nav>`;
}

/** Every file of the tree. @param {WorkflowTree} tree @returns {TreeFile[]} */
export const filesOf = ({ users, shared, common, other }) => [
  ...[...users, ...shared].flatMap(({ files }) => files),
  ...common,
  ...other,
];

/** The workflows with which requests begin stand first. @param {TreeFile[]} files */
export const ordered = (files) => [...files].sort((a, b) => Number(b.starts.length > 0) - Number(a.starts.length > 0));

/** @param {{file: TreeFile, whose: string | null, open: boolean}} props */
function File({ file, whose, open }) {
  const { name, kind, errors, warnings, unused, starts, last } = file;
  const words = [kind !== "workflow" && kind, unused && "unused"];
  return html`<li><a href=${addressOf({ path: file.path, user: whose })} aria-current=${open ? "page" : null}>
    <span class="fname">${name}</span>
    ${starts.length > 0 && html`<span class="word" title=${`answers ${starts.join(", ")}`}>start</span>`}
    ${words.map((word) => word && html`<span class="word">${word}</span>`)}
    <span class="counts">${last && ["failed", "cancelled"].includes(last.state) && html`<${Mark}
      state=${last.state} />`}
      <${Count} n=${errors} word="error" sign="✕" look="cnt" /><${Count} n=${warnings} word="warning" sign="▲"
        look="cnt w" /></span>
  </a></li>`;
}

/**
 * How many problems: a sign for the eye, the word for the ear.
 * @param {{n: number, word: string, sign: string, look: string}} props
 */
const Count = ({ n, word, sign, look }) =>
  n > 0 &&
  html`<span class=${look} title=${counted(n, word)}><span aria-hidden="true">${sign} </span>${n}
    <span class="unseen"> ${n === 1 ? word : `${word}s`}</span></span>`;
