// @ts-check
// One field of a form: its name in words and in code, its box, what it means, and what is wrong with it.
import { html, useId, useState } from "../vendor/preact.js";
import { CONTROLS } from "./form_controls.js";
import { labelOf } from "./form_model.js";
import { TextField } from "./text_field.js";

/**
 * @typedef {import("./form_model.js").Shown & {n: number, text: string, off: boolean, problems:
 *   import("./workflow_types.js").Problem[], hints: import("./form.js").Hints, edits: any}} Props
 */

/** @param {Props} props */
export function Field(props) {
  const { field, tree, control, twice, off, problems, hints, edits } = props;
  const { name, required, description } = field;
  const id = useId();
  const [isLarge, enlarge] = useState(false);
  const isText = control === "text";
  const isWide = isText || ["texts", "map", "json"].includes(control);
  const label = labelOf(name);
  const said = summary(props);
  const leave = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" || !isLarge || event.defaultPrevented) return;
    event.preventDefault();
    event.stopPropagation();
    enlarge(false);
  };
  const look = `field${isWide ? " wide" : ""}${isLarge ? " large" : ""}`;
  return html`<div class=${look} data-field=${name} onKeyDown=${leave}>
    <div class="lab">${isText || isWide ? html`<span>${label}</span>` : html`<label for=${id}>${label}</label>`}
      <code>${name}</code><a class="q" href=${`#/help/${hints.page}`} aria-label=${`Help on ${name}`}>?</a>
      <span class="tools">
        ${isText && html`<button type="button" class="small" aria-pressed=${isLarge}
          onClick=${() => enlarge(!isLarge)}>${isLarge ? "Smaller" : "Larger"}</button>`}
        ${tree && !required && !off && html`<button type="button" class="small" aria-label=${`Reset ${name}`}
          title="Take the field out, so that its default holds" onClick=${() => edits.reset(name)}>Reset</button>`}
      </span></div>
    ${isText
      ? html`<${TextField} id=${id} value=${String(tree?.value ?? "")} label=${label} about=${said} writable=${!off}
          lookOf=${(/** @type {string} */ one) => hints.lookOf(one, name)} choices=${hints.choices}
          changed=${(/** @type {string} */ typed) => edits.write(name, JSON.stringify(typed))} />`
      : html`<${CONTROLS[control]} id=${id} tree=${tree} text=${props.text} off=${off} about=${`${id}-why`}
          words=${wordsOf(props)} isStrict=${isStrict(props)} usual=${field.default} within=${edits.within(name)}
          write=${(/** @type {string} */ written) => edits.write(name, written)} />`}
    <p class="why" id=${`${id}-why`}>${inCode(said)}</p>
    ${field.form === "names:endpoints" && tree && tree.value === hints.endpoint?.written && html`<${Endpoint}
      hints=${hints} />`}
    ${twice && html`<p class="fault warning">This key is there twice; the last one is used.</p>`}
    ${problems.map(({ level, message }) => html`<p class=${`fault ${level}`}><span class="unseen">${level}: </span>
      ${message}</p>`)}
    ${field.group === "unknown" && !problems.length && html`<p class="fault note">This type does not know this field.
      ${description}</p>`}
  </div>`;
}

/** What stands in backquotes is code. @param {string} said */
const inCode = (said) => said.split("`").map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));

/** What the field means; of a type what it does. @param {Props} props */
function summary({ field, tree, hints }) {
  if (field.name === "type") return hints.summaryOf(String(tree?.value ?? field.default ?? ""));
  return field.description;
}

/** What there is to choose from. @param {Props} props */
function wordsOf({ field, hints }) {
  const names = [...hints.namesFor(field.form), ...hints.namesFor(field.of ?? "")].map((value) => ({ value }));
  const words = (field.enum ?? []).filter((word) => typeof word === "string");
  return [...names, ...words.map((value) => ({ value: String(value) }))];
}

/** Nothing but the words: an enum in which no variable may stand. @param {Props} props */
const isStrict = ({ field, control }) => control === "choice" && !field.fills;

/** What is known of the node's endpoint. @param {{hints: import("./form.js").Hints}} props */
function Endpoint({ hints }) {
  const { name, model } = /** @type {{name: string | null, model: string | null}} */ (hints.endpoint);
  if (!hints.endpointAddress)
    return html`<p class="why">${name ? "No endpoint has this name. " : "Known only during a run. "}
      <a href="#/endpoints">Endpoints</a></p>`;
  return html`<p class="why"><a href=${hints.endpointAddress}>${name}</a>${model && ` uses ${model}`}</p>`;
}
