// @ts-check
// Help: one search over names, descriptions and pages, and the page beside it as elements. Never HTML: what markdown.js
// does not know is text.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { addressOf, pathInAddress } from "../shared/address.js";
import { useAsked, useTold } from "../shared/asked.js";
import { listKeys } from "../shared/keys.js";
import { blocks, plain, saidOf, textOf } from "./markdown.js";
import { Missing, copied } from "../shared/parts.js";
import { go, place } from "../shared/place.js";
import { entries, found, kindsOf, target } from "./search.js";
import { ask } from "../shared/server.js";

/** @typedef {import("./markdown.js").Block} Block @typedef {import("./markdown.js").Inline} Inline */
/** @typedef {(to: string) => { page: string, at: string } | { outside: string } | null} Leads */

/** @type {Map<string, string>} */
const NO_TEXTS = new Map();
const FIRST = "tutorial";
/** Pages for those who change the program: found by search and by links, not listed. */
const UNLISTED = ["architecture", "dependencies", "performance", "releasing"];
const GUIDES = ["Guides"];
const GROUPS = [
  ["Nodes", "nodes/"],
  ["Cleaning rules", "rules/"],
  ["Clients", "frontends/"],
  ["Model servers", "backends/"],
  ["Examples", "examples/"],
];

/** Keys of this page. */
export const keys = { ...listKeys(".list"), Escape: () => place.value.parts.length > 0 && go("#/help") };

/** @param {{ place: { parts: string[], query: URLSearchParams } }} props */
export function Page({ place: { parts, query } }) {
  const { data: index, error, again } = useAsked("help");
  if (!index) return html`<${Missing} error=${error} again=${again} />`;
  return html`<${Pages} index=${index} name=${parts.join("/")} at=${query.get("at") ?? ""}
    find=${query.get("find") ?? ""} />`;
}

/** @param {{ index: any, name: string, at: string, find: string }} props */
function Pages({ index, name, at, find }) {
  const [words, say] = useState(find);
  const searched = useRef(false);
  searched.current ||= words.trim() !== "";
  const texts = useTold(searched.current ? "texts" : "", (signal) => textsOf(index.pages, signal)).data ?? NO_TEXTS;
  const all = useMemo(() => entries(index), [index]);
  const hits = useMemo(() => found(all, words, texts), [all, words, texts]);
  const names = useMemo(() => new Set(index.pages.map((/** @type {any} */ page) => page.name)), [index]);
  useEffect(() => say(find), [find]);
  return html`<div class=${`helpsplit${name ? " open" : ""}`}>
    <section class="list" aria-label="Find in Help">
      <form class="filter" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
        <input type="search" class="find" placeholder="Find a node, field, rule ( / )" aria-label="Find in Help"
          value=${words}
          onInput=${(/** @type {any} */ event) => say(event.target.value)} />
      </form>
      <p class="told" role="status">${words.trim() ? (hits.length ? `${hits.length} found` : "Nothing found.") : ""}</p>
      ${words.trim() ? html`<${Hits} hits=${hits} open=${name} />` : html`<${Contents} pages=${index.pages}
        open=${name || FIRST} />`}
    </section>
    <${Shown} key=${name || FIRST} name=${name || FIRST} at=${at} names=${names} />
  </div>`;
}

/** The texts of pages, asked for one after the other. @param {{ name: string }[]} pages @param {AbortSignal} signal */
async function textsOf(pages, signal) {
  const texts = new Map();
  for (const { name } of pages) {
    const told = await ask(`help/${pathInAddress(name)}`, { signal }).catch(() => null);
    signal.throwIfAborted();
    texts.set(name, textOf(blocks(told?.markdown ?? "")));
  }
  return texts;
}

/** @param {{ hits: import("./search.js").Entry[], open: string }} props */
function Hits({ hits, open }) {
  return html`<ol class="rows hits">${hits.map(
    (
      hit,
    ) => html`<li><a class="hit" href=${helpAddress(hit.page, hit.at)} aria-current=${hit.page === open &&
      hit.where === "page" ? "page" : null}>
      <b>${hit.name}</b> <span class="dim">${hit.where}</span>${hit.text ? html`<span class="about">${hit.text}
      </span>` : null}</a></li>`,
  )}</ol>`;
}

/** @param {{ pages: { name: string, title: string }[], open: string }} props */
function Contents({ pages, open }) {
  const groupOf = (/** @type {string} */ name) => GROUPS.find(([, start]) => name.startsWith(start)) ?? GUIDES;
  return html`<nav class="contents" aria-label="Pages of Help">${[GUIDES, ...GROUPS].map((group) => {
    const held = pages.filter(({ name }) => groupOf(name) === group && !UNLISTED.includes(name));
    return (
      held.length > 0 &&
      html`<h2>${group[0]}</h2><ul>${held.map(({ name, title }) => html`<li><a href=${helpAddress(name)}
        aria-current=${name === open ? "page" : null}>${title}</a></li>`)}</ul>`
    );
  })}</nav>`;
}

/** @param {{ name: string, at: string, names: Set<string> }} props */
function Shown({ name, at, names }) {
  const { data, error, again } = useAsked(`help/${pathInAddress(name)}`);
  const made = useMemo(() => (data ? blocks(data.markdown) : []), [data]);
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const page = place.current;
    if (!made.length || !page) return;
    for (const old of page.querySelectorAll(".sought")) old.classList.remove("sought");
    const wanted = at ? sought(page, at) : null;
    wanted?.classList.add("sought");
    if (wanted) wanted.scrollIntoView({ block: "start" });
    else page.scrollTop = 0;
  }, [made, at]);
  if (!data) return html`<article class="prose"><${Missing} error=${error} again=${again} /></article>`;
  return html`<article class="prose" ref=${place} tabindex="-1">
    <a class="back" href="#/help">‹ All of Help</a>
    <${Prose} made=${made} leads=${(/** @type {string} */ to) => target(to, name, names)} />
  </article>`;
}

/**
 * The heading of that id, else the first row, else the first line that names it in code, else the first that holds it.
 * A row below the heading that `at` names comes before others.
 * @param {HTMLElement} page
 * @param {string} at
 */
function sought(page, at) {
  const [name, under = ""] = at.split("#").reverse();
  const idOf = (/** @type {string} */ words) => `#help-${CSS.escape(words.toLowerCase())}`;
  const all = (/** @type {string} */ selector) => [...page.querySelectorAll(selector)];
  const naming = (/** @type {string} */ selector) =>
    all(selector).find((one) => [name, `{${name}}`, `"${name}"`].includes(one.textContent ?? ""));
  const row = "td:first-child code";
  const lines = "tr, li, p, pre, h2, h3, h4";
  return (
    page.querySelector(idOf(name)) ??
    (naming(`${idOf(under)} ~ * ${row}`) ?? naming(row) ?? naming("code"))?.closest(lines) ??
    all(lines).find((one) => one.textContent?.toLowerCase().includes(name.toLowerCase()))
  );
}

// --- a page of the docs ---

/** @param {{ made: Block[], leads: Leads, label?: string }} props */
function Prose({ made, leads, label = "Table" }) {
  const tables = made.filter(({ kind }) => kind === "table");
  return made.map(
    (block, at) => html`<${One} key=${at} block=${block} leads=${leads} table=${`${label} ${tables.indexOf(block)
      + 1}`} />`,
  );
}

/**
 * @param {{ block: Block, leads: Leads, table: string }} props `table`: its name, as two regions may not have one
 */
function One({ block, leads, table }) {
  const inside = (/** @type {Inline[]} */ parts) => html`<${Line} parts=${parts} leads=${leads} />`;
  switch (block.kind) {
    case "heading":
      return html`<${`h${Math.min(block.level, 6)}`} id=${`help-${block.id}`} tabindex="-1">${inside(block.inside)}
        <//>`;
    case "paragraph":
      return html`<p>${inside(block.inside)}</p>`;
    case "quote":
      return html`<blockquote><${Prose} made=${block.inside} leads=${leads} /></blockquote>`;
    case "rule":
      return html`<hr />`;
    case "code":
      return html`<${Code} text=${block.text} />`;
    case "list": {
      const items = block.items.map((item) => html`<li><${Prose} made=${item} leads=${leads} /></li>`);
      return block.start === null ? html`<ul>${items}</ul>` : html`<ol start=${block.start}>${items}</ol>`;
    }
    default:
      return html`<div class="wide" tabindex="0" role="region" aria-label=${table}><table>
        <thead><tr>${block.head.map((cell) => html`<th scope="col">${inside(cell)}</th>`)}</tr></thead>
        <tbody>${block.rows.map((row) => html`<tr>${row.map((cell, at) => html`<td
          data-head=${plain(block.head[at] ?? [])}>${inside(cell)}</td>`)}</tr>`)}</tbody>
      </table></div>`;
  }
}

/** @param {{ parts: Inline[], leads: Leads }} props */
function Line({ parts, leads }) {
  return parts.map((part) => {
    if (part.kind === "text") return part.text;
    if (part.kind === "picture") return html`<span class="dim">(picture: ${part.text})</span>`;
    if (part.kind === "code") return html`<code>${part.text}</code>`;
    const inside = html`<${Line} parts=${part.inside} leads=${leads} />`;
    if (part.kind !== "link") return html`<${part.kind}>${inside}<//>`;
    const to = leads(part.to);
    if (to === null) return inside;
    if ("outside" in to) return html`<a href=${to.outside} rel="noreferrer" target="_blank">${inside}</a>`;
    return html`<a href=${helpAddress(to.page, to.at)}>${inside}</a>`;
  });
}

// --- what a page says of one field, where it is filled in ---

/**
 * @param {{ field: import("../workflows/completion.js").Field, pages: string[], index: any, id: string }} props
 *   `pages`: those that may tell of it, the likeliest first
 */
export function FieldHelp({ field, pages, index, id }) {
  const { name, required, default: usual, fills } = field;
  const { data, error } = useTold(`${pages} ${name}`, async (signal) => {
    const said = [];
    for (const page of pages) {
      const { title, markdown } = await ask(`help/${pathInAddress(page)}`, { signal });
      const one = { page, title, ...saidOf(blocks(markdown), name) };
      if (one.row) return one;
      said.push(one);
    }
    return said.find(({ more }) => more.length) ?? said[0];
  });
  if (!data) return html`<p class="why" id=${id} role="status">${error ? error.message : "loading"}</p>`;
  const { page, title, row, more } = data;
  const names = new Set(index.pages.map((/** @type {any} */ one) => one.name));
  const leads = (/** @type {string} */ to) => target(to, page, names);
  const states = usual !== null; // a row may be about several fields, its default too
  const told = (row ?? []).slice(1).filter(({ head, cell }) => cell.length && !(states && plain(head) === "default"));
  const kinds = kindsOf(field);
  return html`<div class="fieldhelp prose" role="group" aria-label=${`Help on ${name}`} id=${id}><dl>
      ${kinds && html`<dt>value</dt><dd>${kinds}${fills && ", variables are filled in"}</dd>`}
      ${states && html`<dt>default</dt><dd><code>${JSON.stringify(usual)}</code></dd>`}
      ${required && !row && html`<dt>default</dt><dd>required</dd>`}
      ${told.map(({ head, cell }) => html`<dt><${Line} parts=${head} leads=${leads} /></dt><dd><${Line} parts=${cell}
        leads=${leads} /></dd>`)}</dl>
    <${Prose} made=${more.slice(0, 3)} leads=${leads} label=${`${name}, table`} />
    <p>Whole page: <a href=${helpAddress(page, name)}>${title}</a></p></div>`;
}

/** @param {string} page @param {string} [at] */
const helpAddress = (page, at) => addressOf("help", page.split("/"), { at });

/** @param {{ text: string }} props */
function Code({ text }) {
  const [told, tell] = useState("Copy");
  const copy = async () => {
    tell((await copied(text)) ? "Copied" : "Not copied");
    setTimeout(() => tell("Copy"), 2000);
  };
  return html`<div class="sample"><pre tabindex="0"><code>${text}</code></pre><button type="button" onClick=${copy}>
    ${told}</button></div>`;
}
