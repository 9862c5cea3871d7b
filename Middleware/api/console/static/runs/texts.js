// @ts-check
// Texts of a run: asked for when somebody looks at them, and shown with what was left out.
import { html, useState } from "../vendor/preact.js";
import { useTold } from "../shared/asked.js";
import { Missing } from "../shared/parts.js";
import { ask, era } from "../shared/server.js";
import { number } from "../shared/words.js";

/** @typedef {import("../shared/types.js").Ref} Ref @typedef {import("../shared/types.js").Text} Text */

const MOST_KEPT = 60;
export const NO_CALL = html`<p class="dim">This node called no model and no other server.</p>`;
const known = /** @type {Map<string, Promise<Text>>} */ (new Map());

/** One kept text. @param {string} id @param {Ref} ref @returns {Promise<Text>} */
export function textOf(id, ref) {
  const name = `${era.value}/${id}/${ref.ref}/${ref.chars}`;
  const there = known.get(name);
  if (there) return there;
  const text = ask(`runs/${encodeURIComponent(id)}/texts/${encodeURIComponent(ref.ref)}`);
  if (known.size >= MOST_KEPT) known.delete([...known.keys()][0]);
  known.set(name, text);
  text.catch(() => known.delete(name));
  return text;
}

/** A text, asked for again when it has grown. @param {string} id @param {Ref | null} ref */
export const useText = (id, ref) =>
  useTold(ref ? `${id}/${ref.ref}` : "", () => textOf(id, /** @type {Ref} */ (ref)), ref?.chars);

/** A text with what was left out, or the words where it would stand.
 * @param {{id: string, reference: Ref | null, none: string, large?: boolean}} props */
export function TextBox({ id, reference, none, large }) {
  const { data: text, error, again } = useText(id, reference);
  if (!reference) return html`<p class="dim">${none}</p>`;
  if (!text) return html`<${Missing} error=${error} again=${again} rows=${3} />`;
  return html`<${Whole} text=${text} large=${large} />`;
}

/**
 * A frame with a heading; at its right what is counted.
 * @param {{kind?: string, title: unknown, right?: unknown, children?: unknown}} props
 */
export const Box = ({ kind = "", title, right, children }) =>
  html`<div class=${`msg ${kind}`}><h2>${title}<span>${right}</span></h2>${children}</div>`;

/**
 * Buttons of which one is pressed.
 * @param {{label: string, views: string[][], shown: string, choose: (name: string) => void, children?: unknown}} props
 *   `views`: names and titles
 */
export const Switches = ({
  label,
  views,
  shown,
  choose,
  children,
}) => html`<div class="switches" role="group" aria-label=${label}>
  ${views.map(
    ([name, title = name]) => html`<button type="button" aria-pressed=${name === shown}
    onClick=${() => choose(name)}>${title}</button>`,
  )}<span class="dim">${children}</span></div>`;

/** @param {{text: Text, large?: boolean}} props */
export function Whole({ text, large }) {
  if (text.chars === 0) return html`<p class="dim pad">This text is empty.</p>`;
  if (!text.left_out)
    return html`<pre class=${large && text.chars <= 40 ? "large" : ""} tabindex="0">${text.head}</pre>`;
  if (!text.head && !text.tail)
    return html`<p class="dim pad">
      ${number(text.chars)} characters, not kept, because the texts of this run take too much memory.</p>`;
  return html`<pre tabindex="0">${text.head}<span class="leftout">
    ${number(text.left_out)} characters were left out here</span>${text.tail}</pre>`;
}

/**
 * A JSON value, folded by depth; what is folded is not made.
 * @param {{value: unknown, name?: string, depth?: number}} props
 */
export function JsonTree({ value, name, depth = 0 }) {
  const [open, setOpen] = useState(depth < 2);
  const label = name === undefined ? "" : html`<span class="jk">${JSON.stringify(name)}</span>: `;
  if (value === null || typeof value !== "object")
    return html`<div class="jrow">${label}<span class=${typeof value === "string" ? "js" : "jn"}>
      ${JSON.stringify(value)}</span></div>`;
  const isList = Array.isArray(value);
  const members = /** @type {[string, unknown][]} */ (Object.entries(value));
  const [first, last] = isList ? "[]" : "{}";
  if (!members.length) return html`<div class="jrow">${label}${first}${last}</div>`;
  return html`<details class="jrow" open=${open}
    onToggle=${(/** @type {any} */ event) => event.target === event.currentTarget && setOpen(event.currentTarget.open)}>
    <summary>${label}${first}${
      open ? "" : html`<span class="dim"> ${members.length} ${isList ? "values" : "fields"} </span>${last}`
    }</summary>
    ${
      open &&
      html`<div class="jin">${members.map(
        ([key, one]) => html`<${JsonTree} key=${key} value=${one}
      name=${isList ? undefined : key} depth=${depth + 1} />`,
      )}</div><div>${last}</div>`
    }</details>`;
}
