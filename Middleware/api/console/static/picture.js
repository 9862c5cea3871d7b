// @ts-check
// The middle of Workflows: heading, way back, what the chosen node names, and the picture with its zoom.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { Graph } from "./graph.js";
import { huesOf } from "./lanes.js";
import { addressOf, nameOf, wayBack } from "./workflow_place.js";
import { clock, counted } from "./words.js";

/**
 * @typedef {import("./workflow_types.js").WorkflowFile} WorkflowFile
 * @typedef {import("./workflow_types.js").GraphShape} GraphShape
 * @typedef {import("./file_view.js").Checked} Checked
 * @typedef {import("./workflow_place.js").Place} Place
 * @typedef {{id: string, at: number, nodes: import("./workflow_types.js").Times} | null} Run
 */

const ZOOMS = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.15, 1.3, 1.5, 1.75, 2];
const NATURAL = ZOOMS.indexOf(1);
const SHOWS_TIMES = "console.times";

/**
 * @param {{file: WorkflowFile, checked: Checked, good: import("./file_view.js").Good | null, times: Run, chosen: number | null, choose: (n: number | null) => void,
 *   place: Place, pane: string, open: (pane: string) => void}} props
 */
export function Picture({ file, checked, good, times, chosen, choose, place, pane, open }) {
  const [timed, setTimed] = useState(localStorage.getItem(SHOWS_TIMES) !== "off");
  const turn = () => {
    localStorage.setItem(SHOWS_TIMES, timed ? "off" : "on");
    setTimed(!timed);
  };
  const pale = !checked.graph && good !== null;
  return html`<section class="graph" aria-label="Graph">
    <header class="ghead">
      <${Way} place=${place} />
      <h1>${nameOf(file.path)}</h1><span class="dim">${summaryOf(file, good?.graph ?? null)}</span>
      <span class="gacts"><button type="button" aria-pressed=${String(pane === "dry")} onClick=${() => open(pane === "dry" ? "text" : "dry")}>Dry run</button>
        <button type="button" class="main" data-try aria-pressed=${String(pane === "try")} onClick=${() => open(pane === "try" ? "text" : "try")}>Try it</button></span>
    </header>
    <div class="chosennode dim"><${About} node=${good?.graph.nodes.find(({ n }) => n === chosen) ?? null} />
      ${times && html`<span class="times"><label><input type="checkbox" checked=${timed} onChange=${turn} /> times of the last run</label>, <a href=${`#/runs/${encodeURIComponent(times.id)}`}>${clock(times.at)}</a></span>`}</div>
    ${pale || !good ? html`<${NoPicture} problems=${checked.problems} pale=${pale} />` : null}
    ${good && html`<${Zoomed} pale=${pale}>${(/** @type {number} */ zoom) => html`<${Graph} graph=${good.graph} problems=${good.problems} times=${timed && times ? times.nodes : null} chosen=${chosen} choose=${choose}
      place=${place} zoom=${zoom} label=${`nodes of ${nameOf(file.path)}`} />`}<//>`}
  </section>`;
}

/** `mira, 6 nodes, 3 endpoints` @param {WorkflowFile} file @param {GraphShape | null} graph */
function summaryOf({ user, path }, graph) {
  const folder = path.split("/")[1];
  if (!graph) return user || folder;
  return [user || folder, counted(graph.nodes.length, "node"), counted(huesOf(graph.nodes).size, "endpoint")].join(", ");
}

/** The way back: `Main > Reviewers > CodeFix`. @param {{place: Place}} props */
function Way({ place }) {
  const way = wayBack(place);
  if (!way.length) return null;
  return html`<nav class="way" aria-label="Way back">${way.map(({ name, address }) => html`<a href=${address}>${name}</a><span class="dim" aria-hidden="true"> › </span>`)}</nav>`;
}

/** What the chosen node names, as links. @param {{node: import("./workflow_types.js").GraphNode | null}} props */
function About({ node }) {
  if (!node) return html`<span>Choose a node to see its lines.</span>`;
  const { n, title, type, endpoint, preset, variables } = node;
  return html`<b>${n} ${title}</b><a href=${`#/help/nodes/${encodeURIComponent(type)}`}>${type}</a>
    ${endpoint && html`<span>endpoint ${endpoint.file ? html`<a href=${addressOf({ path: endpoint.file })}>${endpoint.name}</a>` : (endpoint.name ?? "known at the run")}${endpoint.name !== endpoint.written && ` from ${endpoint.written}`}${endpoint.model && `, ${endpoint.model}`}</span>`}
    ${preset && html`<span>preset ${preset}</span>`}
    ${variables.length > 0 && html`<span>reads ${variables.map((name) => `{${name}}`).join(" ")}</span>`}`;
}

/** @param {{problems: import("./workflow_types.js").Problem[], pale: boolean}} props */
function NoPicture({ problems, pale }) {
  const errors = problems.filter(({ level }) => level === "error");
  return html`<div class="notes bad" role="status">${errors.length ? errors.slice(0, 4).map(({ line, column, message }) => html`<div>${line ? `${line}:${column} ` : ""}${message}</div>`) : "The file has no nodes to show."}
    ${pale && html`<div class="dim">Below: the picture of the last text that could be read.</div>`}</div>`;
}

/** A picture that can be made larger and smaller: Ctrl + wheel, `+`, `-`, `0`. @param {{pale: boolean, children: (zoom: number) => unknown}} props */
function Zoomed({ pale, children }) {
  const [step, setStep] = useState(NATURAL);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const pane = useRef(/** @type {HTMLElement | null} */ (null));
  const inner = useRef(/** @type {HTMLElement | null} */ (null));
  const zoom = ZOOMS[step];
  const by = (/** @type {number} */ steps) => setStep((was) => (steps === 0 ? NATURAL : Math.min(Math.max(was + steps, 0), ZOOMS.length - 1)));
  useEffect(() => {
    const wheel = (/** @type {WheelEvent} */ event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      by(event.deltaY < 0 ? 1 : -1);
    };
    pane.current?.addEventListener("wheel", wheel, { passive: false });
    return () => pane.current?.removeEventListener("wheel", wheel);
  }, []);
  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (inner.current);
    const measure = () => setSize({ width: element.offsetWidth, height: element.offsetHeight });
    const watcher = new ResizeObserver(measure);
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);
  const key = (/** @type {KeyboardEvent} */ event) => {
    const steps = /** @type {Record<string, number>} */ ({ "+": 1, "=": 1, "-": -1, 0: 0 })[event.key];
    if (steps === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    by(steps);
  };
  return html`<div class=${`zoompane${pale ? " pale" : ""}`} ref=${pane} onKeyDown=${key}>
    <div style=${zoom === 1 ? {} : { width: `${size.width * zoom}px`, height: `${size.height * zoom}px` }}>
      <div class="zoomed" ref=${inner} style=${{ transform: zoom === 1 ? "none" : `scale(${zoom})` }}>${children(zoom)}</div></div>
  </div>
  <p class="zooms" role="group" aria-label="Zoom"><button type="button" class="small" aria-label="smaller" onClick=${() => by(-1)}>−</button>
    <button type="button" class="small" aria-label=${`${Math.round(zoom * 100)} %, back to natural size`} onClick=${() => by(0)}>${Math.round(zoom * 100)} %</button>
    <button type="button" class="small" aria-label="larger" onClick=${() => by(1)}>+</button></p>`;
}
