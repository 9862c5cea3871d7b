// @ts-check
// The middle of Workflows: heading, way back, what the chosen node names, and the picture with its zoom.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { useLoaded } from "./editor_pane.js";
import { Graph, cardInFocus } from "./graph.js";
import { huesOf } from "./geometry.js";
import { addressOf, nameOf, wayBack } from "./workflow_place.js";
import { keptSwitch } from "../shared/kept.js";
import { useKeys } from "../shared/keys.js";
import { clock, counted } from "../shared/words.js";

/**
 * @typedef {import("./workflow_types.js").WorkflowFile} WorkflowFile
 * @typedef {import("./workflow_types.js").GraphShape} GraphShape
 * @typedef {import("./workflow_place.js").Place} Place
 * @typedef {{id: string, at: number, nodes: import("./workflow_types.js").Times} | null} Run
 */

const ZOOMS = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.15, 1.3, 1.5, 1.75, 2];
const NATURAL = ZOOMS.indexOf(1);
const [timesShown, turnTimes] = keptSwitch("console.times", "off");

/**
 * @typedef {import("./file_view.js").View & {times: Run, choose: (n: number, field?: string) => void, reason: string,
 *   hand: {current: import("./text.js").Hand | null}, n: number | null, known: import("./completion.js").Known | null,
 *   say: (said: string) => void, fail: (failed: string) => void}} Props `reason`: why nothing can be changed
 */

/** @param {Props} props */
export function Picture(props) {
  const { file, place, draft, node, pane, open, times, choose, reason, n } = props;
  const { checked, good } = draft;
  const opener = (/** @type {string} */ name) => ({
    "aria-pressed": pane === name,
    onClick: () => open(pane === name ? "text" : name),
  });
  const [gap, setGap] = useState(/** @type {import("./node_bar.js").Gap | null} */ (null));
  const section = useRef(/** @type {HTMLElement | null} */ (null));
  const { NodeBar } = useLoaded(() => import("./node_bar.js"), reason === "" && (n !== null || gap !== null));
  /** @param {number} at @param {string} group @param {string} where @param {Event} event */
  const add = (at, group, where, event) => {
    const button = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
    const { top, height } = /** @type {HTMLElement} */ (section.current).getBoundingClientRect();
    setGap({ n: at, group, where, top: Math.max(56, Math.min(button.bottom - top + 2, height - 420)) });
  };
  const adding = reason ? null : add;
  const move = reason
    ? undefined
    : (/** @type {import("./geometry.js").Step} */ step) => setGap({ where: "", top: 0, ...step });
  useKeys({
    Insert() {
      const at = cardInFocus();
      if (reason || at === null) return false;
      setGap({ n: at + 1, where: `after node ${at}`, top: 110 });
    },
  });
  // An address that names a node, as that of a new file, leads the keyboard to it.
  useEffect(() => {
    const card = /** @type {HTMLElement | null} */ (section.current?.querySelector(".node[aria-current]") ?? null);
    if (document.activeElement === document.body) card?.focus();
  }, []);
  const addFirst = (/** @type {Event} */ event) => add(1, "", "to the empty file", event);
  const isEmpty = /\[\s*\]/.test(draft.now.value);
  const pale = !checked.graph && good !== null;
  return html`<section class="graph" aria-label="Graph" ref=${section}>
    <header class="ghead">
      <${Way} place=${place} />
      <h1>${nameOf(file.path)}</h1><span class="dim">${summaryOf(file, good?.graph)}</span>
      <span class="gacts"><button type="button" ...${opener("dry")}>Dry run</button><button type="button" class="main"
        data-try ...${opener("try")}>Try it</button></span>
    </header>
    <div class="chosennode dim"><${About} node=${node} />
      ${times && html`<span class="times"><label><input type="checkbox" checked=${timesShown.value}
        onChange=${turnTimes} /> times of the last run</label>, <a href=${`#/runs/${encodeURIComponent(times.id)}`}>
          ${clock(times.at)}</a></span>`}</div>
    ${NodeBar && html`<${NodeBar} ...${props} gap=${gap} setGap=${setGap} />`}
    ${(pale || !good) && html`<${NoPicture} problems=${checked.problems} pale=${pale}
      add=${adding && isEmpty ? addFirst : null} />`}
    ${
      good &&
      html`<${Zoomed} pale=${pale}><${Graph} graph=${good.graph} problems=${good.problems}
        times=${timesShown.value && times ? times.nodes : null} chosen=${node?.n ?? null} choose=${choose} add=${adding}
      move=${move} place=${place} label=${`nodes of ${nameOf(file.path)}`} /><//>`
    }
  </section>`;
}

/** `mira, 6 nodes, 3 endpoints` @param {WorkflowFile} file @param {GraphShape | undefined} graph */
function summaryOf({ user, path }, graph) {
  const whose = user || path.split("/")[1];
  return graph
    ? `${whose}, ${counted(graph.nodes.length, "node")}, ${counted(huesOf(graph.nodes).size, "endpoint")}`
    : whose;
}

/** The way back: `Main > Reviewers > CodeFix`. @param {{place: Place}} props */
function Way({ place }) {
  const way = wayBack(place);
  if (!way.length) return null;
  return html`<nav class="way" aria-label="Way back">${way.map(({ name, address }) => html`<a href=${address}>${name}
    </a><span class="dim" aria-hidden="true"> › </span>`)}</nav>`;
}

/** What the chosen node names, as links. @param {{node: import("./workflow_types.js").GraphNode | null}} props */
function About({ node }) {
  if (!node) return html`<span>Choose a node to see its lines.</span>`;
  const { n, title, type, endpoint, preset, variables } = node;
  return html`<b>${n} ${title}</b><a href=${`#/help/nodes/${encodeURIComponent(type)}`}>${type}</a>
    ${endpoint && html`<span>endpoint ${endpoint.file ? html`<a href=${addressOf({ path: endpoint.file })}>
    ${endpoint.name}</a>` : (endpoint.name ?? "known only during a run")}${endpoint.name !== endpoint.written &&
      ` from ${endpoint.written}`}${endpoint.model && `, ${endpoint.model}`}</span>`}
    ${preset && html`<span>preset ${preset}</span>`}
    ${variables.length > 0 && html`<span>reads ${variables.map((name) => `{${name}}`).join(" ")}</span>`}`;
}

/**
 * @param {{problems: import("./workflow_types.js").Problem[], pale: boolean,
 *   add: ((event: Event) => void) | null}} props
 */
function NoPicture({ problems, pale, add }) {
  const errors = problems.filter(({ level }) => level === "error");
  return html`<div class="notes bad" role="status">${errors.length ? errors.slice(0, 4).map(({ line, column,
    message }) => html`<div>${line ? `${line}:${column} ` : ""}${message}</div>`) : "The file has no nodes to show."}
    ${add && html`<div><button type="button" onClick=${add}>Add a node</button></div>`}
    ${pale && html`<div class="dim">This picture shows the last version that could be read.</div>`}</div>`;
}

/**
 * A picture that can be made larger and smaller: Ctrl + wheel, `+`, `-`, `0`.
 * @param {{pale: boolean, children: unknown}} props
 */
function Zoomed({ pale, children }) {
  const [step, setStep] = useState(NATURAL);
  const by = (/** @type {number} */ steps) =>
    setStep((was) => (steps ? Math.min(Math.max(was + steps, 0), ZOOMS.length - 1) : NATURAL));
  const wheel = (/** @type {WheelEvent} */ event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    by(event.deltaY < 0 ? 1 : -1);
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    const steps = { "+": 1, "=": 1, "-": -1, 0: 0 }[event.key];
    if (steps === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    by(steps);
  };
  const percent = `${Math.round(ZOOMS[step] * 100)} %`;
  const button = (/** @type {string} */ sign, /** @type {string} */ name, /** @type {number} */ steps) =>
    html`<button type="button" class="small" aria-label=${name} onClick=${() => by(steps)}>${sign}</button>`;
  return html`<div class=${`zoompane${pale ? " pale" : ""}`} onWheel=${wheel} onKeyDown=${key}><div class="zoomed"
    style=${{ zoom: ZOOMS[step] }}>${children}</div></div>
    <p class="zooms" role="group" aria-label="Zoom">${button("−", "smaller", -1)}${button(percent,
      `${percent}, back to natural size`, 0)}${button("+", "larger", 1)}</p>`;
}
