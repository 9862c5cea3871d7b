// @ts-check
// The keyboard: one table for what it does, one listener; a list, or a bar of buttons, is one stop of the Tab key.
import { html, signal, useEffect, useRef } from "../vendor/preact.js";
import { Dialog } from "./parts.js";
import { go, wayFor } from "./place.js";

/**
 * @typedef {Record<string, (event: KeyboardEvent) => unknown>} Keys by key, `Ctrl+s` with Ctrl or Cmd; a deed that
 *   gives `false` leaves the key to others
 */

const TABLE = [
  ["j k or arrows", "move in a list"],
  ["Enter", "open"],
  ["Esc", "back"],
  ["/", "search"],
  ["g, then r w e o h", "Runs, Workflows, Endpoints, Overview, Help"],
  ["c", "cancel the open run (asks first)"],
  ["n", "a new workflow"],
  ["t", "try the workflow, or edit and try the open run"],
  ["m", "mark a run for Compare"],
  ["0", "show the whole time of a run again"],
  ["[", "fold the list of runs away, or show it"],
  ["F6", "next part of the page; with Shift the one before"],
  ["F1", "help"],
  ["F8", "next problem"],
  ["Alt+up, Alt+down", "move a node"],
  ["Insert", "add a node after this one"],
  ["Ctrl+S", "save"],
  ["?", "this list"],
];
const PAGES = /** @type {Record<string, string>} */ ({
  r: "runs",
  w: "workflows",
  e: "endpoints",
  o: "overview",
  h: "help",
});
const SECOND_MS = 1500;

const open = signal(false);
let wentAt = 0;

export const showKeys = () => (open.value = true);

/** To the next part of the page; behind the last one the key is the browser's. @param {KeyboardEvent} event */
function nextPane({ shiftKey }) {
  const panes = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("main [data-pane]")]).filter((one) =>
    one.checkVisibility(),
  );
  const at = panes.findIndex((one) => one.contains(document.activeElement));
  const pane = panes[at < 0 ? (shiftKey ? -1 : 0) : at + (shiftKey ? -1 : 1)];
  if (!pane) return false;
  const inside = /** @type {HTMLElement | null} */ (pane.querySelector("[tabindex='0'], h1[tabindex]"));
  (inside ?? pane).focus();
  return true;
}

const EVERYWHERE = /** @type {Keys} */ ({
  F6: nextPane,
  "?": showKeys,
  F1: () => go("#/help"),
  "/": () => /** @type {HTMLElement | null} */ (document.querySelector("main [type=search]"))?.focus(),
  g: () => (wentAt = performance.now()),
});
const layers = [{ current: EVERYWHERE }];

/** What keys do while a part is shown; the newest part is asked first. @param {Keys} keys */
export function useKeys(keys) {
  const layer = useRef(keys);
  layer.current = keys;
  useEffect(() => {
    layers.unshift(layer);
    return () => void layers.splice(layers.indexOf(layer), 1);
  }, []);
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.defaultPrevented || event.altKey) return;
  const key = event.ctrlKey || event.metaKey ? `Ctrl+${event.key}` : event.key;
  const target = /** @type {HTMLElement} */ (event.composedPath()[0]);
  const writes = target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName ?? "");
  if (writes && !/^(F\d+|Escape|Ctrl\+.)$/.test(key)) return;
  if (document.querySelector("dialog[open]")) return;
  const second = performance.now() - wentAt < SECOND_MS && PAGES[key];
  wentAt = 0;
  const deeds = second ? [() => go(wayFor(second))] : layers.flatMap(({ current }) => current[key] ?? []);
  if (deeds.some((deed) => deed(event) !== false)) event.preventDefault();
  else if (key === "Escape" && writes) target.blur();
}

/** The list of keys, over the page. */
export function KeyList() {
  useEffect(() => {
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  if (!open.value) return null;
  const close = () => (open.value = false);
  return html`<${Dialog} title="Keyboard" close=${close}><dl class="keys">${TABLE.map(
    ([key, words]) => html`<div><dt>
    ${key}</dt><dd>${words}</dd></div>`,
  )}</dl>
    <button type="button" onClick=${close}>Close</button><//>`;
}

/**
 * Keys that move in a list of links: letters from anywhere, arrows within it.
 * @param {string} list a selector
 * @returns {Keys}
 */
export function listKeys(list) {
  const by = (/** @type {number} */ steps) => () => step(`${list} a`, steps);
  const within = (/** @type {number} */ steps) => (/** @type {Event} */ event) =>
    /** @type {Element} */ (event.target).closest(list) !== null && step(`${list} a`, steps);
  return { j: by(1), k: by(-1), ArrowDown: within(1), ArrowUp: within(-1) };
}

/**
 * Moves the focus among what a selector finds and shows, from the chosen one on; at the ends it stays. One that opened
 * by itself (`data-unasked`) is not chosen.
 * @param {string} selector
 * @param {number} step
 */
export function step(selector, step) {
  const all = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(selector)]).filter((one) =>
    one.checkVisibility(),
  );
  const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const current = at < 0 ? all.findIndex((one) => one.hasAttribute("aria-current") && !("unasked" in one.dataset)) : at;
  const to = all[current < 0 ? 0 : Math.max(0, Math.min(all.length - 1, current + step))];
  to?.focus();
  to?.scrollIntoView({ block: "nearest" });
  return all.length > 0;
}

/**
 * @param {{current: HTMLElement | null}} box
 * @param {string} items a selector within it
 * @param {boolean} [arrows] whether left and right move here; false: somebody else moves the focus
 */
export function useOneStop(box, items, arrows = true) {
  const all = () => /** @type {HTMLElement[]} */ ([...(box.current?.querySelectorAll(items) ?? [])]);
  const settle = () => {
    const found = all();
    const focused = found.find((one) => one === document.activeElement);
    const stop = focused ?? found.find((one) => one.ariaCurrent) ?? found.find((one) => one.tabIndex === 0) ?? found[0];
    for (const one of found) one.tabIndex = one === stop ? 0 : -1;
  };
  useEffect(settle);
  useEffect(() => {
    const here = box.current;
    if (!here) return;
    const move = (/** @type {KeyboardEvent} */ event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const target = /** @type {HTMLElement} */ (event.target);
      if (!arrows || !by || ["INPUT", "SELECT"].includes(target.tagName)) return;
      const found = all();
      const at = found.indexOf(target);
      if (at < 0) return;
      event.preventDefault();
      found[Math.max(0, Math.min(found.length - 1, at + by))].focus();
    };
    here.addEventListener("focusin", settle);
    here.addEventListener("keydown", move);
    return () => {
      here.removeEventListener("focusin", settle);
      here.removeEventListener("keydown", move);
    };
  }, [box.current]);
}
