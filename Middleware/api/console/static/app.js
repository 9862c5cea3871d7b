// @ts-check
// The frame: bar, page, keyboard. Each page's code is loaded when it is first opened.
import { html, render, useEffect, useRef } from "./vendor/preact.js";
import { barPage } from "./shared/address.js";
import { useCode } from "./shared/asked.js";
import { Bar, KeyForm, PAGES, Strips } from "./shared/bar.js";
import { keyWanted } from "./shared/key.js";
import { KeyList, useKeys } from "./shared/keys.js";
import { Empty, Missing } from "./shared/parts.js";
import { place } from "./shared/place.js";
import { listen, refusal, state } from "./shared/server.js";

/**
 * @typedef {{Page: (props: {place: import("./shared/types.js").Place}) => unknown, keys?:
 *   import("./shared/keys.js").Keys}} Module
 */

const MODULES = /** @type {Record<string, () => Promise<Module>>} */ ({
  runs: () => import("./runs/runs.js"),
  chats: () => load("./chats/chats.js"),
  workflows: () => load("./workflows/workflows.js"),
  endpoints: () => load("./endpoints/endpoints.js"),
  overview: () => load("./overview/overview.js"),
  help: () => load("./help/help.js"),
  compare: () => load("./compare/compare.js"),
});
const load = (/** @type {string} */ name) => import(name);

function App() {
  const asked = place.value.page;
  const page = barPage(asked);
  const name = asked in MODULES ? asked : page;
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  const first = useRef(true);
  const title = PAGES.find(([name]) => name === page)?.[1] ?? "Nothing here";
  useEffect(() => {
    document.title = `${title} - Headrace`;
    if (!first.current) main.current?.focus();
    first.current = false;
  }, [name]);
  if (keyWanted.value) return html`<${Bar} page="" /><main id="main" tabindex="-1"><${KeyForm} /></main>`;
  return html`<a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => (event.preventDefault(),
    main.current?.focus())}>Skip to content</a>
    <${Bar} page=${page} />
    <div class="strips"><${Strips} /></div>
    <main id="main" tabindex="-1" ref=${main}>${!state.value && refusal.value ? html`<${Empty}
      title="The console is closed here" sentence=${refusal.value} />` : html`<${Loaded} key=${name} name=${name} />`}
        </main>
    <${KeyList} />`;
}

/** @param {{name: string}} props */
function Loaded({ name }) {
  const { data: module, error } = useCode(name in MODULES ? name : "", MODULES[name]);
  useKeys(module?.keys ?? {});
  if (!MODULES[name])
    return html`<${Empty} title="Nothing here" sentence="This address leads to no page of the console."><p>
      <a href="#/runs">Runs</a></p><//>`;
  // A browser asks for a module once.
  if (!module) return html`<${Missing} error=${error} again=${() => location.reload()} />`;
  return html`<${module.Page} place=${place.value} />`;
}

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.replaceChildren();
render(html`<${App} />`, root);
listen();
