// @ts-check
// Small parts that every page uses.
import { html, useEffect, useId, useRef, useState } from "../vendor/preact.js";
import { addressOf } from "./address.js";
import { PARTS, lengthOf, seconds, sentence, stateWords } from "./words.js";

/** A drawing of `marks.svg`; without a word it is for the eye alone.
 * @param {{name: string, look?: string, said?: string, box?: string}} props */
export const Drawing = ({ name, look, said, box = "0 0 16 16" }) =>
  html`<svg class=${look} viewBox=${box} role=${said && "img"} aria-label=${said} aria-hidden=${!said || null}>
    <use href=${`static/marks.svg#${name}`} /></svg>`;

/**
 * A state's mark, with its word for those who do not see it.
 * @param {{state: string, plain?: boolean}} props `plain`: the word stands beside it
 */
export const Mark = ({ state, plain }) =>
  html`<${Drawing} name=${state} look=${`mark ${state}`} said=${plain ? undefined : stateWords(state)} />`;

/** The lock of a run whose texts are not kept. */
export const Lock = () => html`<${Drawing} name="private" look="lock" said="private: no texts are kept" />`;

/**
 * The shape of time of a run; `scale`: the seconds that fill the width.
 * @param {{shape: [import("./types.js").Part, number][], scale: number}} props
 */
export function Shape({ shape, scale }) {
  const total = lengthOf({ shape });
  const width = scale ? Math.min(100, (100 * total) / scale) : 0;
  const words = shape.map(([kind, length]) => `${PARTS[kind]} ${seconds(length)}`);
  return html`<div class=${total > scale ? "shape notched" : "shape"} role="img" aria-label=${
    words.join(", ") || "no time yet"
  } style=${{ width: `${width}%` }}>
    ${shape.map(
      ([kind, length], at) => html`<i key=${at} class=${`k-${kind}`} title=${words[at]}
      style=${{ width: `${(100 * length) / total}%` }}></i>`,
    )}</div>`;
}

/** In place of the part that failed. @param {{error: Error, again?: () => void}} props */
export const Failed = ({ error, again }) =>
  html`<div class="failedpart" role="alert"><${Mark} state="failed" /><p>${sentence(error.message)}</p>
    ${again && html`<button type="button" onClick=${again}>Try again</button>`}</div>`;

/**
 * In place of what is not there: why it failed, or that it is asked for.
 * @param {{error: Error | null, again?: () => void, rows?: number}} props
 */
export const Missing = ({ error, again, rows }) =>
  error ? html`<${Failed} error=${error} again=${again} />` : html`<${Loading} rows=${rows} />`;

/** Names and what is known of them: nothing is said of what has no value.
 * @param {{facts: [name: string, value: unknown, title?: string][], look?: string}} props */
export const Facts = ({ facts, look = "facts" }) =>
  html`<dl class=${look}>${facts
    .filter(([, value]) => ![null, undefined, false, ""].includes(/** @type {any} */ (value)))
    .map(
      ([name, value, title]) => html`<div title=${title}><dt>${name}</dt>
      <dd>${value}</dd></div>`,
    )}</dl>`;

/**
 * Nothing yet: a heading, one sentence, the next step.
 * @param {{title: string, sentence: string, children?: unknown}} props
 */
export const Empty = ({ title, sentence, children }) =>
  html`<div class="empty"><h1>${title}</h1><p>${sentence}</p>${children}</div>`;

/** Pale rows, when it takes over 300 ms. @param {{rows?: number}} props */
export function Loading({ rows = 6 }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const clock = setTimeout(() => setLate(true), 300);
    return () => clearTimeout(clock);
  }, []);
  return html`<div class="loading" aria-busy="true">${
    late &&
    html`<span class="unseen" role="status">loading</span>
    ${Array.from({ length: rows }, () => html`<i></i>`)}`
  }</div>`;
}

/** @typedef {{label: string, tabs: {name: string, title: string}[], chosen: string, choose: (name: string) => void}}
 *   TabProps */

/** Tabs; arrows move. @param {TabProps & {look?: string, id?: string}} props `id`: what their panes are named by */
export function TabList({ label, tabs, chosen, choose, look = "tabs", id }) {
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const move = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = (tabs.findIndex(({ name }) => name === chosen) + step + tabs.length) % tabs.length;
    choose(tabs[at].name);
    /** @type {HTMLElement} */ (list.current?.children[at])?.focus();
  };
  return html`<div class=${look} role="tablist" aria-label=${label} ref=${list} onKeyDown=${move}>
    ${tabs.map(
      ({ name, title }) => html`<button key=${name} type="button" role="tab" id=${id && `${id}-${name}`}
        aria-selected=${name === chosen} aria-controls=${id && `${id}-pane`} tabindex=${name === chosen ? 0 : -1}
        onClick=${() => choose(name)}>${title}</button>`,
    )}</div>`;
}

/** Tabs over one pane, which is the children. @param {TabProps & {right?: unknown, children?: unknown}} props */
export function Tabs({ right, children, ...props }) {
  const id = useId();
  return html`<div class="tabline"><${TabList} ...${props} id=${id} />${
    right && html`<span class="right dim">${right}</span>`
  }</div>
    <div class="pane" role="tabpanel" id=${`${id}-pane`} aria-labelledby=${`${id}-${props.chosen}`} tabindex="0">
      ${children}</div>`;
}

/**
 * Closes what a pointer leaves by going down somewhere else.
 * @param {{current: HTMLElement | null}} box @param {() => void} close
 */
export function useOutside(box, close, open = true) {
  useEffect(() => {
    if (!open) return;
    const outside = (/** @type {Event} */ event) =>
      box.current?.contains(/** @type {globalThis.Node} */ (event.target)) || close();
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, [open]);
}

/** A button that opens a list of deeds. `items`: null draws a line.
 * @param {{label: string, items: ({title: string, note?: string, off?: string, checked?: boolean, act: () => unknown} |
 *   null)[]}} props */
export function Menu({ label, items }) {
  const [open, setOpen] = useState(false);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const buttons = () => /** @type {HTMLElement[]} */ ([...(box.current?.querySelectorAll("[role^=menuitem]") ?? [])]);
  const close = (back = true) => {
    setOpen(false);
    if (back) /** @type {HTMLElement | null} */ (box.current?.firstElementChild)?.focus();
  };
  useEffect(() => void (open && buttons()[0]?.focus()), [open]);
  useOutside(box, () => close(false), open);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (!open) return;
    const all = buttons();
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (to !== undefined) all.at(to % all.length)?.focus();
    else if (event.key === "Escape") close();
    else if (event.key === "Tab") return close(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const row = (
    /** @type {NonNullable<typeof items[number]>} */ item,
  ) => html`<button type="button" tabindex="-1" role=${item.checked === undefined ? "menuitem" : "menuitemradio"}
    aria-checked=${item.checked} aria-disabled=${Boolean(item.off) || null} onClick=${() =>
      item.off || (close(), item.act())}><span>${item.title}</span>${
      (item.off || item.note) &&
      html`<small>${item.off || item.note}
        </small>`
    }</button>`;
  return html`<div class="menu" ref=${box} onKeyDown=${keys}><button type="button" aria-haspopup="menu"
    aria-expanded=${open} onClick=${() => setOpen(!open)}>${label}</button>
    ${
      open &&
      html`<div class="items" role="menu" aria-label=${label}>${items.map((item) =>
        item ? row(item) : html`<hr role="separator" />`,
      )}</div>`
    }</div>`;
}

/** What the list at the left shows: runs, or the chats that they belong to. @param {{shown: string}} props */
export const ListSwitch = ({ shown }) =>
  html`<nav class="seg" aria-label="What is listed">${["Runs", "Chats"].map((title) => {
    const name = title.toLowerCase();
    return html`<a href=${`#/${name}`} aria-current=${name === shown ? "page" : null}>${title}</a>`;
  })}</nav>`;

/** A window over the page; Escape closes it. @param {{title: string, close: () => void, children?: unknown}} props */
export function Dialog({ title, close, children }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => box.current?.showModal(), []);
  return html`<dialog ref=${box} aria-label=${title} onClose=${close}
    onClick=${(/** @type {Event} */ event) => event.target === box.current && close()}>
    <div class="dialog"><h2>${title}</h2>${children}</div></dialog>`;
}

/** Puts a text on the clipboard; on plain HTTP of another host, which has none, by way of a chosen text box.
 * @param {string} text @returns {Promise<boolean>} */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const box = document.createElement("textarea");
    box.value = text;
    box.className = "unseen";
    document.body.append(box);
    box.select();
    const done = document.execCommand("copy");
    box.remove();
    return done;
  }
}

/** Offers a text as a file. @param {string} name @param {string} text */
export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** A config file as a link to its text. @param {{path: string}} props */
export const FileLink = ({ path }) =>
  html`<a href=${addressOf("workflows", path.split("/"))}>${bare(path)}</a>`;

/** @param {string} path */
const bare = (path) => path.replace(/^(Workflows|Endpoints)\//, "").replace(/\.json$/, "");
