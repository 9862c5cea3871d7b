// @ts-check
// Texts of a run: asked for when somebody looks at them, and shown with what was left out.
import { html, useEffect, useState } from "./vendor/preact.js";
import { Failed, Loading } from "./parts.js";
import { ask, era } from "./server.js";
import { number } from "./words.js";

/** @typedef {import("./types.js").Ref} Ref @typedef {import("./types.js").Text} Text */

const MOST_KEPT = 60;
const known = /** @type {Map<string, Text>} */ (new Map());

/** One kept text. @param {string} id @param {Ref} ref @returns {Promise<Text>} */
export async function textOf(id, ref) {
  const name = `${era.value}/${id}/${ref.ref}/${ref.chars}`;
  const there = known.get(name);
  if (there) return there;
  const text = await ask(`runs/${encodeURIComponent(id)}/texts/${encodeURIComponent(ref.ref)}`);
  if (known.size >= MOST_KEPT) known.delete([...known.keys()][0]);
  known.set(name, text);
  return text;
}

/** What was there stays until the new is, while it is the same text that has grown. @param {string} id @param {Ref | null} ref */
export function useText(id, ref) {
  const [told, tell] = useState(/** @type {{of: string, text: Text | null, error: Error | null}} */ ({ of: "", text: null, error: null }));
  const of = ref ? `${id}/${ref.ref}` : "";
  const again = () => {
    let here = true;
    if (ref) textOf(id, ref).then((text) => here && tell({ of, text, error: null }), (error) => here && tell((was) => ({ of, text: was.of === of ? was.text : null, error })));
    return () => void (here = false);
  };
  useEffect(again, [of, ref?.chars]);
  const mine = told.of === of;
  return { text: mine ? told.text : null, error: mine ? told.error : null, again: () => void again() };
}

/** A text with what was left out, or the words where it would stand.
 * @param {{id: string, reference: Ref | null, none: string, large?: boolean}} props */
export function TextBox({ id, reference, none, large }) {
  const { text, error, again } = useText(id, reference);
  if (!reference) return html`<p class="dim">${none}</p>`;
  if (error && !text) return html`<${Failed} error=${error} again=${again} />`;
  if (!text) return html`<${Loading} rows=${3} />`;
  return html`<${Whole} text=${text} large=${large} />`;
}

/** @param {{text: Text, large?: boolean}} props */
export function Whole({ text, large }) {
  if (text.chars === 0) return html`<p class="dim pad">An empty text.</p>`;
  if (!text.left_out) return html`<pre class=${large && text.chars <= 40 ? "large" : ""} tabindex="0">${text.head}</pre>`;
  if (!text.head && !text.tail) return html`<p class="dim pad">${number(text.chars)} characters, not kept: the texts of this run are too long together.</p>`;
  return html`<pre tabindex="0">${text.head}<span class="leftout">${number(text.left_out)} characters are left out here</span>${text.tail}</pre>`;
}

/** A JSON value, folded by depth; what is folded is not made. @param {{value: unknown, name?: string, depth?: number}} props */
export function JsonTree({ value, name, depth = 0 }) {
  const [open, setOpen] = useState(depth < 2);
  const label = name === undefined ? "" : html`<span class="jk">${JSON.stringify(name)}</span>: `;
  if (value === null || typeof value !== "object") return html`<div class="jrow">${label}<span class=${typeof value === "string" ? "js" : "jn"}>${JSON.stringify(value)}</span></div>`;
  const isList = Array.isArray(value);
  const members = /** @type {[string, unknown][]} */ (Object.entries(value));
  const [first, last] = isList ? "[]" : "{}";
  if (!members.length) return html`<div class="jrow">${label}${first}${last}</div>`;
  return html`<details class="jrow" open=${open} onToggle=${(/** @type {any} */ event) => event.target === event.currentTarget && setOpen(event.currentTarget.open)}>
    <summary>${label}${first}${open ? "" : html`<span class="dim"> ${members.length} ${isList ? "values" : "fields"} </span>${last}`}</summary>
    ${open && html`<div class="jin">${members.map(([key, one]) => html`<${JsonTree} key=${key} value=${one} name=${isList ? undefined : key} depth=${depth + 1} />`)}</div><div>${last}</div>`}</details>`;
}
