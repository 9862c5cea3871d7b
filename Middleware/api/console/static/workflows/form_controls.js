// @ts-check
// The boxes of a form, one for each kind of value. Each shows what the document holds and tells what is typed.
import { html, useEffect, useId, useRef, useState } from "../vendor/preact.js";
import { isNumberLike, numberWritten } from "./form_model.js";
import { isJson } from "./form_model.js";

/**
 * @typedef {import("./json_tree.js").Tree} Tree
 * @typedef {{id: string, tree: Tree | null, text: string, off: boolean, about: string, words: {value: string, info?:
 *   string}[], isStrict: boolean, usual: unknown, write: (written: string) => void, within: Within}} Props
 *   `write`: another value, as JSON; `off`: read-only; `words`: what there is to choose from; `isStrict`: nothing
 *   else; `usual`: the default
 * @typedef {{set: (item: number, written: string, key?: string) => void, add: (written: string) => void,
 *   out: (item: number) => void, move: (from: number, to: number) => void}} Within the members of a list or map
 */

const valueOf = (/** @type {any} */ event) => event.currentTarget.value;
const shownText = (/** @type {Tree | null} */ tree) => (tree?.value === undefined || tree.value === null ? ""
  : String(tree.value));

/** @param {Props} props */
const Line = ({ id, tree, off, about, write }) =>
  html`<input id=${id} value=${shownText(tree)} readonly=${off} aria-describedby=${about}
    onInput=${(/** @type {Event} */ event) => write(JSON.stringify(valueOf(event)))} />`;

/** @param {Props} props */
function NumberBox({ id, tree, off, about, write }) {
  const typed = shownText(tree);
  return html`<input id=${id} value=${typed} readonly=${off} inputmode="numeric" aria-describedby=${about}
    aria-invalid=${(typed !== "" && !isNumberLike(typed)) || null}
    onInput=${(/** @type {Event} */ event) => write(numberWritten(valueOf(event)))} />`;
}

/** @param {Props} props */
const Switch = ({ id, tree, off, about, write }) =>
  html`<input id=${id} type="checkbox" checked=${tree?.value === true} disabled=${off} aria-describedby=${about}
    onChange=${(/** @type {any} */ event) => write(String(event.currentTarget.checked))} />`;

/** A name: those that exist are offered, any other may be typed where that makes sense. @param {Props} props */
function Choice({ id, tree, off, about, words, isStrict, usual, write }) {
  const list = useId();
  const value = shownText(tree);
  const typed = (/** @type {Event} */ event) => write(JSON.stringify(valueOf(event)));
  if (isStrict) {
    const all = words.some((word) => word.value === value) ? words : [{ value }, ...words];
    return html`<select id=${id} disabled=${off} aria-describedby=${about} value=${value} onChange=${typed}>
      ${all.map((word) => html`<option value=${word.value} selected=${word.value === value}>${word.value ||
        `${usual ?? "not set"} (default)`}</option>`)}</select>`;
  }
  return html`<input id=${id} list=${list} value=${value} readonly=${off} autocomplete="off" aria-describedby=${about}
      onInput=${typed} />
    <datalist id=${list}>${words.map((word) => html`<option value=${word.value}>${word.info}</option>`)}</datalist>`;
}

/** @param {Props} props */
function Texts({ id, tree, off, about, within }) {
  const items = tree?.members ?? [];
  return html`<div class="items" id=${id} tabindex="-1" role="group" aria-describedby=${about}>
    ${items.map(
      ({ value }, at) => html`<div class="item" key=${at}>
        <textarea rows="1" aria-label=${`text ${at + 1}`} readonly=${off} value=${shownText(value)}
          onInput=${(/** @type {Event} */ event) => within.set(at, JSON.stringify(valueOf(event)))}></textarea>
        ${!off && html`<button type="button" class="small" aria-label=${`text ${at + 1} up`} disabled=${at === 0}
          onClick=${() => within.move(at, at - 1)}>↑</button>
        <button type="button" class="small" aria-label=${`text ${at + 1} down`} disabled=${at === items.length - 1}
          onClick=${() => within.move(at, at + 1)}>↓</button>
        <button type="button" class="small" aria-label=${`remove text ${at + 1}`}
          onClick=${() => within.out(at)}>✕</button>`}</div>`,
    )}
    ${!off && html`<button type="button" class="small" onClick=${() => within.add('""')}>Add a text</button>`}</div>`;
}

/** @param {Props} props */
function TextMap({ id, tree, off, about, words, within }) {
  const list = useId();
  const items = tree?.members ?? [];
  return html`<div class="items" id=${id} tabindex="-1" role="group" aria-describedby=${about}>
    ${items.map(
      ({ key, value }, at) => html`<div class="item" key=${at}>
        <input aria-label=${`key ${at + 1}`} readonly=${off} value=${key}
          onChange=${(/** @type {Event} */ event) => within.set(at, "", valueOf(event))} />
        <input aria-label=${`value of ${key || `key ${at + 1}`}`} readonly=${off} value=${shownText(value)}
          list=${words.length ? list : null} autocomplete="off"
          onInput=${(/** @type {Event} */ event) => within.set(at, JSON.stringify(valueOf(event)))} />
        ${!off && html`<button type="button" class="small" aria-label=${`remove ${key || `key ${at + 1}`}`}
          onClick=${() => within.out(at)}>✕</button>`}</div>`,
    )}
    ${words.length > 0 && html`<datalist id=${list}>${words.map(({ value }) => html`<option value=${value} />`)}
      </datalist>`}
    ${!off && html`<button type="button" class="small" onClick=${() => within.add('"": ""')}>Add a key
      </button>`}</div>`;
}

/** Anything, as it is written. What is no JSON yet is kept in the box alone. @param {Props} props */
function Json({ id, tree, text, off, about, write }) {
  const written = tree ? text.slice(tree.start, tree.end) : "";
  const [typed, setTyped] = useState(written);
  const told = useRef(written);
  useEffect(() => {
    if (written === told.current) return;
    told.current = written;
    setTyped(written);
  }, [written]);
  const input = (/** @type {Event} */ event) => {
    const now = valueOf(event);
    setTyped(now);
    if (!isJson(now)) return;
    told.current = now;
    write(now);
  };
  const isBroken = !isJson(typed);
  return html`<textarea id=${id} class="jsonbox" rows=${Math.min(12, typed.split("\n").length)} readonly=${off}
      value=${typed} aria-describedby=${about} aria-invalid=${isBroken || null} spellcheck="false"
      onInput=${input}></textarea>
    ${isBroken && html`<p class="fault" role="status">This is not JSON yet, so the file keeps the last value.</p>`}`;
}

/** @type {Record<string, unknown>} */
export const CONTROLS = {
  line: Line,
  number: NumberBox,
  switch: Switch,
  choice: Choice,
  names: Choice,
  texts: Texts,
  map: TextMap,
  json: Json,
};
