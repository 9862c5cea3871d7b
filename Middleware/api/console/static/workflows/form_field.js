// @ts-check
// One field of a form: its name in words and in code, its box, what it means, and what is wrong with it.
import { html, useEffect, useId, useRef, useState } from "../vendor/preact.js";
import { MARKS } from "../endpoints/state_words.js";
import { useCode } from "../shared/asked.js";
import { useFinder } from "../shared/finder.js";
import { isJson, isNumberLike, labelOf, numberWritten } from "./form_model.js";
import { RunTexts, TextField } from "./text_field.js";

/**
 * @typedef {import("./form_model.js").Shown & {n: number, text: string, off: boolean, problems:
 *   import("./workflow_types.js").Problem[], hints: import("./form.js").Hints, edits: any}} Props
 */

/**
 * What Help says of it: on the type's own page, else where fields of every node are.
 * @param {Props & {id: string}} props
 */
function Told({ field, id, hints: { index, page } }) {
  const { data, error } = useCode("help", () => import("../help/help.js"));
  const pages = [page, index.common.find(({ name }) => name === field.name)?.page].filter(
    (one, at, all) => one && all.indexOf(one) === at,
  );
  return data
    ? html`<${data.FieldHelp} field=${field} pages=${pages} index=${index} id=${id} />`
    : html`<p class="why" role="status" id=${id}>${error ? error.message : "loading"}</p>`;
}

/** @param {Props} props */
export function Field(props) {
  const { field, tree, control, twice, off, problems, hints, edits } = props;
  const { name, required, description } = field;
  const id = useId();
  const [isLarge, enlarge] = useState(false);
  const [asks, turn] = useState(false);
  const opener = useRef(/** @type {HTMLElement | null} */ (null));
  const isText = control === "text";
  const isWide = isText || ["texts", "map", "json"].includes(control);
  const label = labelOf(name);
  const value = String(tree?.value ?? "");
  const said = summary(props);
  const leave = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" || !(isLarge || asks) || event.defaultPrevented) return;
    event.preventDefault();
    event.stopPropagation();
    if (asks) {
      turn(false);
      opener.current?.focus();
    } else enlarge(false);
  };
  const look = `field${isWide ? " wide" : ""}${isLarge ? " large" : ""}`;
  return html`<div class=${look} data-field=${name} onKeyDown=${leave}>
    <div class="lab">${["text", "texts", "map"].includes(control) ? html`<span>${label}</span>`
      : html`<label for=${id}>${label}</label>`}
      <code>${name}</code><button type="button" class="q" ref=${opener} aria-label=${`Help on ${name}`}
        aria-expanded=${asks} aria-controls=${asks ? `${id}-help` : null} onClick=${() => turn(!asks)}>?</button>
      <span class="tools">
        ${isText && html`<button type="button" class="small" aria-pressed=${isLarge}
          onClick=${() => enlarge(!isLarge)}>${isLarge ? "Smaller" : "Larger"}</button>`}
        ${tree && !required && !off && html`<button type="button" class="small" aria-label=${`Reset ${name}`}
          title="Take the field out, so that its default holds" onClick=${() => edits.reset(name)}>Reset</button>`}
      </span></div>
    ${isText
      ? html`<${TextField} id=${id} value=${value} label=${label} about=${said} writable=${!off}
          lookOf=${(/** @type {string} */ one) => hints.lookOf(one, name)} choices=${hints.choices}
          changed=${(/** @type {string} */ typed) => edits.write(name, JSON.stringify(typed))} />`
      : html`<${CONTROLS[control]} id=${id} tree=${tree} text=${props.text} off=${off} about=${`${id}-why`}
          words=${wordsOf(props)} isStrict=${isStrict(props)} usual=${field.default} within=${edits.within(name)}
          write=${(/** @type {string} */ written) => edits.write(name, written)} />`}
    <p class="why" id=${`${id}-why`}>${inCode(said)}</p>
    ${asks && html`<${Told} ...${props} id=${`${id}-help`} />`}
    ${isText && html`<${RunTexts} name=${name} text=${value} hints=${hints} />`}
    ${field.form === "names:endpoints" && (tree?.value
      ? tree.value === hints.endpoint?.written && html`<${Endpoint} hints=${hints} />`
      : !off && html`<${NoEndpoint} changed=${hints.newNames} />`)}
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

/** The model, address and state of the node's endpoint. @param {{hints: import("./form.js").Hints}} props */
function Endpoint({ hints }) {
  const { name, model, addresses } = /** @type {NonNullable<typeof hints.endpoint>} */ (hints.endpoint);
  if (!hints.endpointAddress)
    return html`<p class="why">${name ? "No endpoint has this name. " : "Known only during a run. "}
      <a href="#/endpoints">Endpoints</a></p>`;
  const { state, words } = hints.health;
  const [first, ...others] = addresses;
  return html`<p class="why"><a href=${hints.endpointAddress}>${name}</a>${model && ` uses ${model}`},
    ${first ? html` <code>${first}</code>${others.length > 0 && ` and ${others.length} more`}` : " built in"}, <span
    class=${`state ${MARKS[state]}`}>${words}</span></p>`;
}

/** Where none is written: servers that could be one. @param {{changed: () => void}} props */
function NoEndpoint({ changed }) {
  const { button, servers } = useFinder("small", changed);
  return html`<p class="why">No endpoint is chosen. ${button}</p>${servers}`;
}

// --- the boxes, one for each kind of value: each shows what the document holds and tells what is typed ---

/**
 * @typedef {import("./json_tree.js").Tree} Tree
 * @typedef {{id: string, tree: Tree | null, text: string, off: boolean, about: string, words: {value: string, info?:
 *   string}[], isStrict: boolean, usual: unknown, write: (written: string) => void, within: Within}} BoxProps
 *   `write`: another value, as JSON; `off`: read-only; `words`: what there is to choose from; `isStrict`: nothing
 *   else; `usual`: the default
 * @typedef {{set: (item: number, written: string, key?: string) => void, add: (written: string) => void,
 *   out: (item: number) => void, move: (from: number, to: number) => void}} Within the members of a list or map
 */

const valueOf = (/** @type {any} */ event) => event.currentTarget.value;
const shownText = (/** @type {Tree | null} */ tree) => (tree?.value === undefined || tree.value === null ? ""
  : String(tree.value));

/** @param {BoxProps} props */
const Line = ({ id, tree, off, about, write }) =>
  html`<input id=${id} value=${shownText(tree)} readonly=${off} aria-describedby=${about}
    onInput=${(/** @type {Event} */ event) => write(JSON.stringify(valueOf(event)))} />`;

/** @param {BoxProps} props */
function NumberBox({ id, tree, off, about, write }) {
  const typed = shownText(tree);
  return html`<input id=${id} value=${typed} readonly=${off} inputmode="numeric" aria-describedby=${about}
    aria-invalid=${(typed !== "" && !isNumberLike(typed)) || null}
    onInput=${(/** @type {Event} */ event) => write(numberWritten(valueOf(event)))} />`;
}

/** @param {BoxProps} props */
const Switch = ({ id, tree, off, about, write }) =>
  html`<input id=${id} type="checkbox" checked=${tree?.value === true} disabled=${off} aria-describedby=${about}
    onChange=${(/** @type {any} */ event) => write(String(event.currentTarget.checked))} />`;

/** A name: those that exist are offered, any other may be typed where that makes sense. @param {BoxProps} props */
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

/** @param {BoxProps} props */
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

/** @param {BoxProps} props */
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

/** Anything, as it is written. What is no JSON yet is kept in the box alone. @param {BoxProps} props */
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
const CONTROLS = {
  line: Line,
  number: NumberBox,
  switch: Switch,
  choice: Choice,
  names: Choice,
  texts: Texts,
  map: TextMap,
  json: Json,
};
