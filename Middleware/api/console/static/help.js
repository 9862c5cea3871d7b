// @ts-check
// Help: one search over names, descriptions and pages, and the page beside it.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { useAsked } from "./asked.js";
import { blocks } from "./markdown.js";
import { Failed, Loading } from "./parts.js";
import { helpAddress, Prose } from "./prose.js";
import { entries, found, target } from "./search.js";
import { ask } from "./server.js";

const FIRST = "workflows";
const GROUPS = [
  ["Nodes", "nodes/"], ["Cleaning rules", "rules/"], ["Clients", "frontends/"], ["Model servers", "backends/"], ["Examples", "examples/"],
];

/** @param {{ place: { parts: string[], query: URLSearchParams } }} props */
export function Page({ place }) {
  const { data: index, error, again } = useAsked("help");
  if (error && !index) return html`<${Failed} error=${error} again=${again} />`;
  if (!index) return html`<${Loading} />`;
  return html`<${Pages} index=${index} name=${place.parts.join("/")} at=${place.query.get("at") ?? ""} find=${place.query.get("find") ?? ""} />`;
}

/** @param {{ index: any, name: string, at: string, find: string }} props */
function Pages({ index, name, at, find }) {
  const [words, say] = useState(find);
  const texts = useTexts(index, Boolean(words.trim()));
  const all = useMemo(() => entries(index), [index]);
  const hits = useMemo(() => found(all, words, texts), [all, words, texts]);
  const names = useMemo(() => new Set(index.pages.map((/** @type {any} */ page) => page.name)), [index]);
  useEffect(() => say(find), [find]);
  return html`<div class=${`helpsplit${name ? " open" : ""}`}>
    <section class="list" aria-label="Find in Help">
      <form class="filter" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
        <input type="search" class="find" placeholder="Find a node, field, rule ( / )" aria-label="Find in Help" value=${words}
          onInput=${(/** @type {any} */ event) => say(event.target.value)} />
      </form>
      <p class="told" role="status">${words.trim() ? (hits.length ? `${hits.length} found` : "Nothing fits.") : ""}</p>
      ${words.trim() ? html`<${Hits} hits=${hits} open=${name} />` : html`<${Contents} pages=${index.pages} open=${name || FIRST} />`}
    </section>
    <${Shown} key=${name || FIRST} name=${name || FIRST} at=${at} names=${names} />
  </div>`;
}

/** The texts of all pages, asked for once somebody searches. @param {any} index @param {boolean} wanted */
function useTexts(index, wanted) {
  const [texts, tell] = useState(/** @type {Map<string, string>} */ (new Map()));
  const begun = useRef(false);
  useEffect(() => {
    if (!wanted || begun.current) return undefined;
    begun.current = true;
    let gone = false;
    (async () => {
      const made = new Map();
      for (const page of index.pages) {
        if (gone) return;
        const told = await ask(`help/${encoded(page.name)}`).catch(() => null);
        if (told) made.set(page.name, told.markdown);
      }
      if (!gone) tell(made);
    })();
    return () => {
      gone = true;
      begun.current = false;
    };
  }, [index, wanted]);
  return texts;
}

/** @param {string} name */
const encoded = (name) => name.split("/").map(encodeURIComponent).join("/");

/** @param {{ hits: import("./search.js").Entry[], open: string }} props */
function Hits({ hits, open }) {
  return html`<ol class="rows hits">${hits.map(
    (hit) => html`<li><a class="hit" href=${helpAddress(hit.page, hit.at)} aria-current=${hit.page === open && hit.where === "page" ? "page" : null}>
      <b>${hit.name}</b> <span class="dim">${hit.where}</span>${hit.text ? html`<span class="about">${hit.text}</span>` : null}</a></li>`,
  )}</ol>`;
}

/** @param {{ pages: { name: string, title: string }[], open: string }} props */
function Contents({ pages, open }) {
  const grouped = GROUPS.map(([title, start]) => ({ title, pages: pages.filter((page) => page.name.startsWith(start)) }));
  const others = pages.filter((page) => !GROUPS.some(([, start]) => page.name.startsWith(start)));
  return html`<nav class="contents" aria-label="Pages of Help">${[{ title: "Guides", pages: others }, ...grouped].map((group) =>
    group.pages.length
      ? html`<h2>${group.title}</h2><ul>${group.pages.map((page) => html`<li><a href=${helpAddress(page.name)} aria-current=${page.name === open ? "page" : null}>${page.title}</a></li>`)}</ul>`
      : null,
  )}</nav>`;
}

/** @param {{ name: string, at: string, names: Set<string> }} props */
function Shown({ name, at, names }) {
  const { data, error, again } = useAsked(`help/${encoded(name)}`);
  const made = useMemo(() => (data ? blocks(data.markdown) : []), [data]);
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!made.length || !place.current) return;
    const wanted = at ? sought(place.current, at) : null;
    if (wanted) wanted.scrollIntoView({ block: "start" });
    else place.current.scrollTop = 0;
    for (const old of place.current.querySelectorAll(".sought")) old.classList.remove("sought");
    wanted?.classList.add("sought");
  }, [made, at]);
  if (error && !data) return html`<article class="prose"><${Failed} error=${error} again=${again} /></article>`;
  if (!data) return html`<article class="prose"><${Loading} /></article>`;
  return html`<article class="prose" ref=${place} tabindex="-1">
    <a class="back" href="#/help">‹ All of Help</a>
    <${Prose} made=${made} leads=${(/** @type {string} */ to) => target(to, name, names)} />
  </article>`;
}

/** The heading of that id, else the first row or line that names it in code. @param {HTMLElement} page @param {string} at */
function sought(page, at) {
  const heading = page.querySelector(`#help-${CSS.escape(at.toLowerCase())}`) ?? page.querySelector(`#help-${CSS.escape(at)}`);
  if (heading) return heading;
  const code = [...page.querySelectorAll("code")].find((one) => [at, `{${at}}`, `"${at}"`].includes(one.textContent ?? ""));
  return code?.closest("tr, li, p, h2, h3, h4") ?? code ?? null;
}
