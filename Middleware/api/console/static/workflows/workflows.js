// @ts-check
// Workflows: the tree of files, the picture of the open one, and its text.
import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { useAsked, useCode } from "../shared/asked.js";
import { FileView } from "./file_view.js";
import { listKeys } from "../shared/keys.js";
import { NewFile, PackForm, UnpackForm } from "./file_forms.js";
import { Empty, Missing } from "../shared/parts.js";
import { state } from "../shared/server.js";
import { Tree, filesOf } from "./tree.js";
import { placeOf } from "./workflow_place.js";

/** @typedef {import("./workflow_types.js").WorkflowTree} WorkflowTree */

/** @typedef {"new" | "pack" | "unpack"} Form */

/** What stands in place of the open file. */
const FORMS = { new: NewFile, pack: PackForm, unpack: UnpackForm };

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
        ? html`<section class="graph"><${FORMS[form]} tree=${tree} path=${place.path || null} user=${place.user}
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
