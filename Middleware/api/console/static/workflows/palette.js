// @ts-check
// Which kind of node comes in: a box to search in, and the kinds in groups.
import { html, useEffect, useId, useMemo, useRef, useState } from "../vendor/preact.js";

/**
 * @typedef {import("./completion.js").NodeType} NodeType
 * @typedef {{types: NodeType[], most: string[], where: string, top: number, take: (type: string) => void,
 *   close: () => void}} Props `most`: those that are used most here; `where`: in words
 */

const GROUPS = [
  ["model", "Ask a model"],
  ["text", "Text and logic"],
  ["workflows", "Other workflows"],
  ["memory", "Memory"],
  ["tools", "Tools"],
  ["files", "Files"],
];
const MOST = 6;

/** @param {Props} props */
export function Palette({ types, most, where, top, take, close }) {
  const [wanted, setWanted] = useState("");
  const [at, setAt] = useState(0);
  const id = useId();
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const groups = useMemo(() => groupsOf(types, most, wanted), [types, most, wanted]);
  const all = groups.flatMap((group) => group.types);
  useEffect(() => setAt(0), [wanted]);
  useEffect(() => box.current?.querySelector("input")?.focus(), []);
  useEffect(() => box.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [at]);
  useEffect(() => {
    const outside = (/** @type {Event} */ event) =>
      box.current?.contains(/** @type {globalThis.Node} */ (event.target)) || close();
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, []);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (event.key === "Enter" && all[at]) take(all[at].name);
    else if (event.key === "ArrowDown") setAt(Math.min(at + 1, all.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  let place = -1;
  const option = (/** @type {NodeType} */ { name, summary }) => {
    place++;
    const mine = place;
    return html`<div class="opt" role="option" id=${`${id}-${mine}`} aria-selected=${mine === at}
      onClick=${() => take(name)}><b>${name}</b><small>${summary.replaceAll("`", "")}</small></div>`;
  };
  return html`<div class="palette" role="dialog" aria-label=${`Add a node ${where}`} ref=${box} onKeyDown=${keys}
    style=${{ top: `${top}px` }}>
    <div class="line"><input type="text" role="combobox" aria-expanded="true" aria-controls=${`${id}-list`}
      aria-activedescendant=${all[at] ? `${id}-${at}` : null} aria-label="Kind of node" placeholder="Kind of node"
      autocomplete="off" value=${wanted}
      onInput=${(/** @type {any} */ event) => setWanted(event.currentTarget.value)} /><kbd>Esc</kbd></div>
    <div class="opts" id=${`${id}-list`} role="listbox" aria-label="Kinds of nodes" tabindex="-1">
      ${groups.map(
        (group) => html`<div role="group" aria-label=${group.title} key=${group.title}>
          <p class="gh" aria-hidden="true">${group.title}</p>${group.types.map(option)}</div>`,
      )}
      ${!all.length && html`<p class="gh">No kind matches.</p>`}</div>
  </div>`;
}

/** @param {NodeType[]} types @param {string[]} most @param {string} wanted */
export function groupsOf(types, most, wanted) {
  const words = wanted.trim().toLowerCase();
  const fits = (/** @type {NodeType} */ { name, summary }) => `${name} ${summary}`.toLowerCase().includes(words);
  const byName = (/** @type {NodeType[]} */ list) =>
    words ? [...list].sort((a, b) => rank(a.name, words) - rank(b.name, words)) : list;
  const used = most.slice(0, MOST).flatMap((name) => types.find((type) => type.name === name) ?? []);
  const groups = GROUPS.map(([name, title]) => ({ title, types: types.filter(({ group }) => group === name) }));
  if (words) {
    const found = byName(types.filter(fits));
    return found.length ? [{ title: "Found", types: found }] : [];
  }
  return [{ title: "Used most here", types: used }, ...groups].filter((group) => group.types.length);
}

/** @param {string} name @param {string} words */
const rank = (name, words) => (name.toLowerCase().startsWith(words) ? 0 : name.toLowerCase().includes(words) ? 1 : 2);
