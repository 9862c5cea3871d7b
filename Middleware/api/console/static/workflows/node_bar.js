// @ts-check
// What can be done with the chosen node in its list: a bar under the heading of the picture, keys on its card, and the
// palette for a new one; and how one of many is found.
import { html, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { fitting } from "../shared/names.js";
import { Dialog, Menu, copied, useOutside } from "../shared/parts.js";
import { ask } from "../shared/server.js";
import { cardInFocus } from "./graph.js";
import { applied } from "./json_edit.js";
import * as list from "./node_list.js";

/**
 * @typedef {import("./node_list.js").Edit} Edit
 * @typedef {{n: number, group?: string, where: string, top: number, from?: number}} Gap where a node comes in: its
 *   number; `from`: it is there already, and moves
 * @typedef {import("./file_view.js").View & {hand: {current: import("./text.js").Hand | null}, n: number | null,
 *   known: import("./completion.js").Known | null, gap: Gap | null, setGap: (gap: Gap | null) => void,
 *   choose: (n: number, field?: string) => void, say: (said: string) => void, fail: (failed: string) => void}} Props
 */

/** @param {Props} props */
export function NodeBar(props) {
  const { file, draft, hand, n, node, known, gap, setGap, choose, say, fail } = props;
  const [asked, setAsked] = useState(/** @type {(Edit & {field?: string}) | null} */ (null));
  const textNow = () => draft.text.current;
  const renumber = (/** @type {object} */ body) => ask("edit/renumber", { method: "POST", body });
  const doc = { text: textNow, user: file.user, renumber };
  const count = list.listIn(textNow())?.members.length ?? 0;
  const graph = draft.good?.graph;

  /** @param {Edit & {field?: string}} edit */
  const make = (edit) => {
    setAsked(null);
    setGap(null);
    const follows = cardInFocus() !== null;
    hand.current?.edit(edit.steps, "form.list");
    choose(edit.n, edit.field);
    if (follows && !edit.field) requestAnimationFrame(() => cardOf(edit.n)?.focus());
  };
  /** @param {Promise<{steps: any[], lost: string[]}>} promised @param {number} after @param {string} [field] */
  const run = (promised, after, field) =>
    promised.then(
      ({ steps, lost }) => {
        const edit = { steps, lost, n: after, field };
        if (lost.length) setAsked(edit);
        else make(edit);
      },
      (error) => {
        setGap(null);
        fail(error.message);
      },
    );
  const insert = (/** @type {number} */ at, /** @type {(text: string, nodes: any) => string} */ write, field = "") =>
    run(list.insertion(doc, at, write), at, field);
  /** @param {number} at @param {number} to @param {string} [group] */
  const move = (at, to, group) => to >= 1 && to <= count && run(list.moving(doc, at, to, group), to);
  const remove = (/** @type {number} */ at) =>
    run(list.removal(doc, at), Math.max(1, Math.min(at, count - 1)));
  const duplicate = () => {
    if (n === null) return;
    const node = list.nodeText(textNow(), n);
    insert(n + 1, (_, nodes) => list.retitled(node, nodes), "title");
  };
  const paste = (/** @type {string} */ text, /** @type {number} */ behind) => {
    const found = list.nodesPasted(text);
    if (!found) return fail("The clipboard holds no node.");
    const at = behind + 1;
    const writes = found.nodes.map(
      (node) => (/** @type {string} */ now, /** @type {any} */ nodes) =>
        list.retitled(list.indented(node, now, nodes), nodes),
    );
    run(list.insertions(doc, at, writes), at);
    if (found.masked) say("A secret that the page was not shown was left empty.");
    return true;
  };
  const answer = () => n !== null && make({ steps: list.answering(textNow(), n), lost: [], n });
  const together = async () => {
    if (n === null) return;
    const steps = list.beside(textNow(), n);
    const told = await draft
      .judge(steps.reduce(applied, textNow()))
      .catch((/** @type {Error} */ error) => fail(error.message));
    const alone = [n, n - 1]
      .map((number) => told?.graph?.nodes.find((/** @type {any} */ one) => one.n === number))
      .find((node) => node?.alone);
    if (alone) fail(`These two cannot run at the same time: node ${alone.n} ${alone.alone}.`);
    else if (told) make({ steps, lost: [], n });
  };
  const add = (/** @type {string} */ type) => {
    if (!gap || !known) return;
    const { n: at, group } = gap;
    return insert(at, (text, nodes) => list.newNode(text, nodes, type, known, group), "title");
  };
  const gapAt = (/** @type {number} */ at, /** @type {string} */ where) => setGap({ n: at, where, top: 110 });
  useCards({ textNow, paste, remove, move });
  // A card was let go.
  useEffect(() => {
    if (!gap?.from) return;
    setGap(null);
    move(gap.from, gap.n, gap.group);
  }, [gap]);

  const button = (/** @type {string} */ title, /** @type {() => unknown} */ act, off = false) =>
    html`<button type="button" disabled=${off} onClick=${act}>${title}</button>`;
  const more = n !== null && [
    { title: "Answer with this node", off: node?.answers ? "It answers already" : "", act: answer },
    { title: "Run beside the one before", off: n === 1 ? "It is the first one" : "", act: together },
    null,
    { title: "Add a node before it", act: () => gapAt(n, `before node ${n}`) },
    { title: "Add a node after it", note: "Insert", act: () => gapAt(n + 1, `after node ${n}`) },
  ];
  return html`${
    n !== null &&
    n <= count &&
    html`<div class="nodebar" role="toolbar" aria-label=${`Node ${n}`}>
      ${button("Up", () => move(n, n - 1), n === 1)}${button("Down", () => move(n, n + 1), n === count)}
      ${button("Duplicate", duplicate)}${button("Copy", () => copied(list.nodeText(textNow(), n)))}
      ${button("Cut", () => copied(list.nodeText(textNow(), n)).then(() => remove(n)))}
      ${button("Remove", () => remove(n))}
      <${Menu} label="More" items=${more} /></div>`
  }
  ${
    gap &&
    !gap.from &&
    known &&
    html`<${Palette} types=${known.index.types} where=${gap.where}
      most=${known.names.types ?? list.byCount(graph?.nodes.map(({ type }) => type) ?? [])}
      top=${gap.top} take=${add} close=${() => setGap(null)} />`
  }
  ${
    asked &&
    html`<${Dialog} title="Some references will no longer work" close=${() => setAsked(null)}>
      <ul>${asked.lost.map((said) => html`<li>${said}</li>`)}</ul>
      <p class="acts"><button type="button" class="main" onClick=${() => make(asked)}>Do it anyway</button>
        <button type="button" onClick=${() => setAsked(null)}>Cancel</button></p><//>`
  }`;
}

/** @param {number} n @returns {HTMLElement | null} */
const cardOf = (n) => document.querySelector(`.zoompane .node[data-n="${n}"]`);

/**
 * Keys on a card: the browser's own copy, cut and paste, for which no permission is asked; Alt and arrows move it.
 * @param {{textNow: () => string, paste: (text: string, behind: number) => unknown, remove: (n: number) => unknown,
 *   move: (n: number, to: number) => unknown}} deeds
 */
function useCards(deeds) {
  const now = useRef(deeds);
  now.current = deeds;
  useEffect(() => {
    const take = (/** @type {ClipboardEvent} */ event) => {
      const n = cardInFocus();
      if (n === null || String(getSelection()) !== "") return;
      event.clipboardData?.setData("text/plain", list.nodeText(now.current.textNow(), n));
      event.preventDefault();
      if (event.type === "cut") now.current.remove(n);
    };
    const put = (/** @type {ClipboardEvent} */ event) => {
      const n = cardInFocus();
      if (n !== null && now.current.paste(event.clipboardData?.getData("text/plain") ?? "", n)) event.preventDefault();
    };
    const press = (/** @type {KeyboardEvent} */ event) => {
      const n = cardInFocus();
      const by = event.altKey ? { ArrowUp: -1, ArrowDown: 1 }[event.key] : undefined;
      if (n === null || !by) return;
      now.current.move(n, n + by);
      event.preventDefault();
    };
    const heard = Object.entries(/** @type {any} */ ({ copy: take, cut: take, paste: put, keydown: press }));
    for (const [name, deed] of heard) addEventListener(name, deed);
    return () => heard.forEach(([name, deed]) => removeEventListener(name, deed));
  }, []);
}

/**
 * @typedef {import("./completion.js").NodeType} NodeType
 * @typedef {{types: NodeType[], most: string[], where: string, top: number, take: (type: string) => void,
 *   close: () => void}} PaletteProps
 *   `most`: those that are used most here; `where`: in words
 */

/** @param {PaletteProps} props */
function Palette({ types, most, where, top, take, close }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const taken = useRef(false);
  /** Keys that come while the server is asked do nothing. @param {NodeType} type */
  const choose = ({ name }) => {
    if (!taken.current) take(name);
    taken.current = true;
  };
  // Before the next key comes; who closes it is where the key was.
  useLayoutEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    box.current?.querySelector("input")?.focus();
    box.current?.scrollIntoView({ block: "nearest" });
    return () => before?.focus();
  }, []);
  useOutside(box, close);
  return html`<div class="palette" role="dialog" aria-label=${`Add a node ${where}`} ref=${box}
    style=${{ top: `${top}px` }}>
    <${Chooser} id=${useId()} label="Kind of node" all=${types}
      groups=${list.groupsOf(types, most)} take=${choose} close=${close}
      look=${(/** @type {NodeType} */ { name }) => html`<b>${name}</b>`}><kbd>Esc</kbd><//></div>`;
}

/**
 * One of many, found by name and by what it does; before anything is typed, all of them in their groups.
 * @template {{name: string, description?: string, summary?: string}} T
 * @param {{id: string, label: string, hint?: string, all: T[], groups: {title: string, items: T[]}[],
 *   take: (one: T) => void, look: (one: T) => unknown, close?: () => void, children?: unknown}} props
 *   `close`: it is open as long as it is there
 */
export function Chooser({ id, label, hint = label, all, groups, take, look, close, children }) {
  const [wanted, setWanted] = useState("");
  const [open, setOpen] = useState(!!close);
  const [at, setAt] = useState(0);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const about = (/** @type {T} */ { description, summary }) => (summary ?? description ?? "").replaceAll("`", "");
  const found = useMemo(() => fitting(all, wanted, (one) => [one.name, about(one)]), [all, wanted]);
  const listed = wanted.trim() ? [{ title: "Found", items: found }] : open ? groups : [];
  const shown = listed.filter(({ items }) => items.length);
  const flat = shown.flatMap(({ items }) => items);
  useEffect(() => setAt(0), [wanted, open]);
  useEffect(() => {
    for (const part of [box.current, box.current?.querySelector("[aria-selected=true]")])
      part?.scrollIntoView({ block: "nearest" });
  }, [wanted, at, open]);
  const shut = () => {
    setWanted("");
    setOpen(false);
  };
  const choose = (/** @type {T} */ one) => {
    take(one);
    if (!close) shut();
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const { key } = event;
    const by = { ArrowDown: 1, ArrowUp: -1 }[key];
    if (key === "Escape" ? wanted || open : key === "Tab" && close) (close ?? shut)();
    else if (key === "Enter" && flat[at]) choose(flat[at]);
    else if (by) {
      setOpen(true);
      setAt(Math.max(0, Math.min(at + by, flat.length - 1)));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  let place = -1;
  const option = (/** @type {T} */ one) => {
    place++;
    return html`<div class="opt" role="option" id=${`${id}-${place}`} aria-selected=${place === at}
      onClick=${() => choose(one)}>${look(one)}<small>${about(one)}</small></div>`;
  };
  return html`<div class="line"><input id=${id} type="search" role="combobox" autocomplete="off"
      aria-expanded=${flat.length > 0} aria-controls=${`${id}-list`}
      aria-activedescendant=${flat[at] ? `${id}-${at}` : null} aria-label=${label} placeholder=${hint} value=${wanted}
      onKeyDown=${keys} onClick=${() => setOpen(true)} onBlur=${() => setOpen(!!close)}
      onInput=${(/** @type {any} */ event) => setWanted(event.currentTarget.value)} />${children}</div>
    <div class="opts" ref=${box} id=${`${id}-list`} role="listbox" aria-label=${label} tabindex="-1"
      hidden=${!flat.length} onMouseDown=${(/** @type {Event} */ event) => event.preventDefault()}>
      ${shown.map(
        ({ title, items }) => html`<div role="group" aria-label=${title} key=${title}>
          <p class="gh" aria-hidden="true">${title}</p>${items.map(option)}</div>`,
      )}</div>
    ${
      wanted.trim() &&
      !flat.length &&
      html`<p class="gh" role="status">Nothing found. <a href=${addressOf("help", [], { find: wanted })}>Search Help</a>
      </p>`
    }`;
}
