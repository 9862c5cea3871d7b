// @ts-check
// Workflows: the tree of files, the picture of the open one, and its text.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { useAsked, useCode } from "../shared/asked.js";
import { FileView } from "./file_view.js";
import { listKeys } from "../shared/keys.js";
import { NewFile, PackForm, UnpackForm } from "./file_forms.js";
import { Empty, Mark, Missing } from "../shared/parts.js";
import { state } from "../shared/server.js";
import { counted } from "../shared/words.js";
import { NAMES, addressOf, placeOf } from "./workflow_place.js";

/** @typedef {import("./workflow_types.js").WorkflowTree} WorkflowTree */

/** @typedef {"new" | "pack" | "unpack"} Form */

/** What stands in place of the open file, what its button says, and what that needs the right for.
 * @type {Record<Form, [unknown, string, string]>} */
const FORMS = {
  new: [NewFile, "New", "create files here"],
  pack: [PackForm, "Pack", "pack workflows"],
  unpack: [UnpackForm, "Unpack", "unpack workflows"],
};
const FORM_NAMES = /** @type {Form[]} */ (Object.keys(FORMS));

/** @param {{place: import("../shared/types.js").Place}} props */
export function Page({ place: given }) {
  const place = useMemo(() => placeOf(given), [given.page, given.parts.join("/"), given.query.toString()]);
  const {
    data: tree,
    error,
    again,
  } = /** @type {import("../shared/asked.js").Asked<WorkflowTree>} */ (useAsked("workflows"));
  const [form, open] = useState(/** @type {Form | null} */ (null));
  const close = () => open(null);
  useEffect(close, [place.path]);
  const names = useCode(place.path ? "" : "names", () => import("./model_names.js"));
  if (!tree) return html`<${Missing} error=${error} again=${again} />`;
  if (!filesOf(tree).length && !place.path) return html`<${Nothing} />`;
  const rights = state.value?.rights ?? [];
  return html`<div class="three">
    <${Tree} tree=${tree} path=${place.path} user=${place.user} begin=${rights.includes("save") ? open : null} />
    ${
      form
        ? html`<section class="graph"><${FORMS[form][0]} tree=${tree} path=${place.path || null} user=${place.user}
          made=${again} close=${close} /></section>`
        : place.path
          ? html`<${FileView} key=${`${place.path} ${place.user}`} place=${place} changed=${again} />`
          : names.data
            ? html`<${names.data.ModelNames} />`
            : html`<section class="names"><${Missing} error=${names.error} again=${names.again} /></section>`
    }
  </div>`;
}

function Nothing() {
  return html`<${Empty} title="No workflow yet"
    sentence="The config folder has no workflow files. This command creates a first user with one:">
      <pre>python server.py --init</pre><//>`;
}

/** @param {string} selector @returns {HTMLElement | null} */
const part = (selector) => document.querySelector(selector);

/** Keys of this page: `t` opens and closes Try it, `n` begins a file, Esc leaves what stands in place of the text or
 * the picture. */
export const keys = {
  ...listKeys(".tree"),
  t: () => part("[data-try]")?.click(),
  n: () => part(".treebar button")?.click(),
  /** Where a form is open, a field to add; from the files on, a file. */
  "/"() {
    const box = part(".tree :focus") ? null : part(".addfield input");
    return box ? box.focus() : false;
  },
  Escape: (/** @type {Event} */ event) => {
    const back = /** @type {Element} */ (event.target).closest("input, textarea, select") ? null : part("[data-back]");
    if (!back) return false;
    back.click();
    part("[data-try]")?.focus();
  },
};

// --- the tree: files of each served user, shared ones, common ones, and what nobody names (folded) ---

/** @typedef {import("./workflow_types.js").TreeFile} TreeFile */

/**
 * @param {{tree: WorkflowTree, path: string, user: string | null,
 *   begin: ((form: Form) => void) | null}} props `begin`: a new file, or a pack
 */
function Tree({ tree, path, user, begin }) {
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
      ${FORM_NAMES.map((form) => {
        const [, words, why] = FORMS[form];
        return html`<button type="button" onClick=${() => begin?.(form)} disabled=${!begin}
        title=${begin ? undefined : `Start the server with --console edit to ${why}.`}>${words}</button>`;
      })}</div>
    ${!wanted && html`<a class="namesline" href=${`#/${NAMES}`} aria-current=${path ? null : "page"}>Model names</a>`}
    ${tree.users.map(({ name, files }) => part(name, files, name))}
    ${tree.shared.map(({ folder, files }) => part(`${folder.split("/").at(-1)}, shared`, files))}
    ${part("common", tree.common)}
    ${other.length > 0 && html`<details open=${wanted !== "" || other.some((file) => file.path === path)}>
    <summary>other (${other.length})</summary>${list("other", other)}</details>`}
    ${wanted && !filesOf(tree).some(fits) && html`<p class="dim none">No file matches.</p>`}
  </nav>`;
}

/** Every file of the tree. @param {WorkflowTree} tree @returns {TreeFile[]} */
const filesOf = ({ users, shared, common, other }) => [
  ...[...users, ...shared].flatMap(({ files }) => files),
  ...common,
  ...other,
];

/** The workflows with which requests begin stand first. @param {TreeFile[]} files */
const ordered = (files) => [...files].sort((a, b) => Number(b.starts.length > 0) - Number(a.starts.length > 0));

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
