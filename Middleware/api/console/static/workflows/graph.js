// @ts-check
// The picture of a workflow: its nodes in their order, from top to bottom, and who uses whose output at the right.
// A list for the keyboard and for screen readers; the arcs are drawn over it and say nothing that the words do not.
import { html, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { Children } from "./children.js";
import { arcsOf, edgesOf, follow, huesOf, shownName } from "./geometry.js";
import { seconds } from "../shared/words.js";

/**
 * @typedef {import("./workflow_types.js").GraphShape} GraphShape
 * @typedef {import("./workflow_types.js").GraphNode} GraphNode
 * @typedef {import("./workflow_types.js").Problem} Problem
 * @typedef {import("./workflow_types.js").Times} Times
 * @typedef {{x1: number, y1: number, x2: number, y2: number, edge: number, ends: number[]}} Drawn
 */

/**
 * @param {{graph: GraphShape, problems: Problem[], times: Times | null, chosen: number | null, choose: (n: number) =>
 *   void,
 *   place: import("./workflow_place.js").Place, level?: number, label: string, add?: Add | null,
 *   move?: (step: import("./geometry.js").Step) => void}} props
 * @typedef {(n: number, group: string, where: string, event: Event) => void} Add asks for a new node
 */
export function Graph({ graph, problems, times, chosen, choose, place, level = 1, label, add = null, move }) {
  const [over, setOver] = useState(/** @type {number | null} */ (null));
  const canvas = useRef(/** @type {HTMLElement | null} */ (null));
  const arcs = useMemo(() => arcsOf(graph.rows, graph.nodes), [graph]);
  const hues = useMemo(() => huesOf(graph.nodes), [graph]);
  const drawn = useDrawn(canvas, arcs);
  const lit = over ?? chosen;
  const near = arcs
    .filter(({ ends }) => lit !== null && ends.includes(lit))
    .flatMap(({ from, to }) => [...graph.rows[from], ...graph.rows[to]]);
  const byNumber = new Map(graph.nodes.map((node) => [node.n, node]));
  const first = chosen ?? graph.rows[0]?.[0];
  const card = (/** @type {number} */ n) => {
    const node = /** @type {GraphNode} */ (byNumber.get(n));
    return html`<${Card} node=${node} problems=${node.problems.map((at) => problems[at]).filter(Boolean)}
      time=${times?.[n] ?? null}
        hue=${hues} chosen=${n === chosen} near=${near.includes(n) && n !== lit} tabbable=${n === first}
          choose=${() => choose(n)} hover=${setOver} />
      <${Children} node=${node} place=${place} level=${level} Picture=${Graph} />`;
  };
  // Touch scrolls the page, and a pen would too.
  const aim = (/** @type {PointerEvent} */ { type, pointerType }) =>
    void (/** @type {HTMLElement} */ (canvas.current).style.touchAction =
      move && pointerType === "pen" && type === "pointerover" ? "none" : "");
  const grab = (/** @type {PointerEvent} */ event) =>
    move && !event.button && event.pointerType !== "touch" && follow(event, move);
  return html`<div class="canvas" ref=${canvas} style=${{ minWidth: `${Math.max(0,
    ...drawn.map(({ edge }) => edge + 12))}px` }} onKeyDown=${step}
    onPointerOver=${aim} onPointerLeave=${aim} onPointerDown=${grab}>
    <${Arcs} drawn=${drawn} lit=${lit} />
    <ol class="col" role="list" aria-label=${label}>
      ${graph.rows.map((row, at) => [
        html`<${Row} key=${row.join()} row=${row} group=${row.length > 1 ? byNumber.get(row[0])?.group : null}
          card=${card} add=${add} isLast=${at === graph.rows.length - 1} />`,
        graph.responder !== null &&
          row.includes(graph.responder) &&
          at < graph.rows.length - 1 &&
          html`<li class="cut" key="cut">the client has its answer</li>`,
      ])}
    </ol>
  </div>`;
}

/**
 * One row: a card, or the members of a group that run together.
 * @param {{row: number[], group: string | null, card: (n: number) => unknown, add: Add | null, isLast: boolean}} props
 */
function Row({ row, group, card, add, isLast }) {
  const last = row[row.length - 1];
  const plus = (/** @type {number} */ n, /** @type {string} */ where, look = "", inGroup = "") =>
    add && html`<${Plus} n=${n} group=${inGroup} where=${where} look=${look} add=${add} />`;
  const ends = [plus(row[0], `before node ${row[0]}`), isLast && plus(last + 1, `after node ${last}`, "last")];
  if (row.length === 1) return html`<li class="grow"><div class="member">${card(row[0])}</div>${ends}</li>`;
  return html`<li class="grow together"><div class="side">
    <span class="cap">together: ${group}</span>
    <ol class="members" role="list" aria-label=${`together: ${group}`}>${row.map((n) => html`<li class="member"
      key=${n}>${n === row[0] && plus(n, `before node ${n}, beside it`, "beside-it first", group ?? "")}${card(n)}${
        plus(n + 1, `beside node ${n}`, "beside-it", group ?? "")}</li>`)}</ol>
  </div>${ends}</li>`;
}

/** A place for a new node, or one that is dragged; the keyboard has its own ways (Insert, Alt and arrows on a card).
 * @param {{n: number, group: string, where: string, look: string, add: Add}} props */
const Plus = ({ n, group, where, look, add }) =>
  html`<button type="button" class=${`plus ${look}`} tabindex="-1" aria-label=${`Add a node ${where}`}
    title=${`Add a node ${where}`} data-n=${n} data-group=${group} onClick=${(/** @type {Event} */ event) =>
      add(n, group, where, event)}><span aria-hidden="true">+</span></button>`;

/** The number of the card that has the focus, in this picture and not in one within it. */
export function cardInFocus() {
  const card = /** @type {HTMLElement | null} */ (document.activeElement?.closest(".zoompane .node") ?? null);
  return card && !card.closest(".frame") ? Number(card.dataset.n) : null;
}

/** Arrow keys go from card to card, in the order of the nodes. @param {KeyboardEvent} event */
function step(event) {
  const canvas = /** @type {HTMLElement} */ (event.currentTarget);
  const cards = /** @type {HTMLElement[]} */ ([...canvas.querySelectorAll(".node")]).filter(
    (card) => card.closest(".canvas") === canvas,
  );
  const at = cards.indexOf(/** @type {HTMLElement} */ (event.target));
  const [next, last] = [at + 1, at - 1];
  const to = {
    ArrowDown: next,
    ArrowRight: next,
    j: next,
    ArrowUp: last,
    ArrowLeft: last,
    k: last,
    Home: 0,
    End: cards.length - 1,
  }[event.key];
  if (at < 0 || to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  cards[to]?.focus();
}

/**
 * Where the arcs run, by the boxes of the rows as they stand; measured again when these change.
 * @param {{current: HTMLElement | null}} canvas @param {import("./geometry.js").Arc[]} arcs
 * @returns {Drawn[]}
 */
function useDrawn(canvas, arcs) {
  const [drawn, setDrawn] = useState(/** @type {Drawn[]} */ ([]));
  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (canvas.current);
    const measure = () => {
      const now = measured(element, arcs);
      setDrawn((was) => (JSON.stringify(was) === JSON.stringify(now) ? was : now));
    };
    measure();
    const watcher = new ResizeObserver(measure);
    for (const one of [element, ...rowsOf(element)]) watcher.observe(one);
    return () => watcher.disconnect();
  }, [arcs]);
  return drawn;
}

/** @param {HTMLElement} canvas @returns {HTMLElement[]} the rows of this picture, not those of pictures inside it */
const rowsOf = (canvas) => /** @type {HTMLElement[]} */ ([...canvas.querySelectorAll(":scope > .col > .grow")]);

/**
 * In the picture's own pixels, whatever its zoom.
 * @param {HTMLElement} canvas
 * @param {import("./geometry.js").Arc[]} arcs
 * @returns {Drawn[]}
 */
function measured(canvas, arcs) {
  const origin = canvas.getBoundingClientRect();
  const zoom = origin.width / canvas.offsetWidth || 1; // while it is not shown it has no width
  const rows = rowsOf(canvas);
  const box = (/** @type {Element | null} */ element) => {
    const { top, bottom, right } = /** @type {Element} */ (element).getBoundingClientRect();
    return {
      top: (top - origin.top) / zoom,
      bottom: (bottom - origin.top) / zoom,
      right: (right - origin.left) / zoom,
    };
  };
  const boxes = rows.map((row) => box(row.querySelector(".side") ?? row.querySelector(".node")));
  const edges = edgesOf(
    arcs,
    rows.map((row) => box(row).right),
    boxes.map(({ right }) => right),
  );
  return arcs.map(({ from, to, ends }, at) => ({
    x1: boxes[from].right,
    y1: boxes[from].bottom - 14,
    x2: boxes[to].right,
    y2: boxes[to].top + 14,
    edge: edges[at],
    ends,
  }));
}

/** @param {{drawn: Drawn[], lit: number | null}} props */
function Arcs({ drawn, lit }) {
  const own = (/** @type {Drawn} */ arc) => lit !== null && arc.ends.includes(lit);
  const ordered = [...drawn].sort((a, b) => Number(own(a)) - Number(own(b)));
  return html`<svg class="arcs" aria-hidden="true">
    ${ordered.map((arc) => html`<path key=${arc.ends.join()} class=${own(arc) ? "arc on" : "arc"} d=${pathOf(arc)} />`)}
  </svg>`;
}

/** Out of the lower right of the source, down its lane, into the upper right of the user. @param {Drawn} arc */
function pathOf({ x1, y1, x2, y2, edge: x }) {
  const round = Math.min(8, (y2 - y1) / 2);
  const out = `M${x1} ${y1}H${x - round}q${round} 0 ${round} ${round}`;
  const into = `q0 ${round} ${-round} ${round}H${x2 + 4}m5 -4l-5 4l5 4`;
  return `${out}V${y2 - round}${into}`;
}

// --- one node: number, title, time, type, endpoint, whom it uses, and its problems in words ---

const SHOWN_PROBLEMS = 3;

/**
 * @param {{node: GraphNode, problems: Problem[], time: {s: number | null, state: string} | null, hue: Map<string,
 *   number>, chosen: boolean,
 *   near: boolean, tabbable: boolean, choose: () => void, hover: (n: number | null) => void}} props
 */
function Card({ node, problems, time, hue, chosen, near, tabbable, choose, hover }) {
  const name = node.endpoint && shownName(node.endpoint);
  const colour = name ? { "--ec": `var(--e${hue.get(name)})` } : {};
  const used = [...new Set(node.uses.map(({ n }) => n))].sort((a, b) => a - b);
  return html`<button type="button" class=${near ? "node near" : "node"} data-n=${node.n} style=${colour}
    tabIndex=${tabbable ? 0 : -1}
      aria-current=${chosen || null} onClick=${choose}
      onMouseEnter=${() => hover(node.n)} onMouseLeave=${() => hover(null)} onFocus=${() => hover(node.n)}
        onBlur=${() => hover(null)}>
    <span class="nhead"><${Unseen}>node <//><span class="n">${node.n}</span><${Unseen}>, <//><span class="ntitle">
    ${node.title}</span>
      ${node.answers && html`<${Unseen}>, <//><span class="flag">answers</span>`}${node.after &&
        html`<${Unseen}>, after the answer<//>`}
      ${time && html`<${Unseen}>, <//><span class="tm">${timeOf(time)}</span>`}</span>
    <span class="ty"><${Unseen}>, <//><span>${node.type}${!node.known && " (runs as Standard)"}</span>
    ${name && html`<${Unseen}>, endpoint <//><span class="ep">${name}</span>`}
      ${used.length > 0 && html`<${Unseen}>, <//><span class="uses">uses ${used.join(", ")}</span>`}</span>
    ${node.alone && html`<span class="why"><${Unseen}>, <//>not in parallel: ${node.alone}</span>`}
    ${problems.slice(0, SHOWN_PROBLEMS).map(({ level, message }) => html`<span class=${`prob ${level}`}>
    <${Unseen}>, ${level}: <//>${message}</span>`)}
    ${problems.length > SHOWN_PROBLEMS && html`<span class="why">and ${problems.length - SHOWN_PROBLEMS} more</span>`}
  </button>`;
}

/** Words that a screen reader hears and nobody sees. @param {{children: unknown}} props */
const Unseen = ({ children }) => html`<span class="unseen">${children}</span>`;

/** @param {{s: number | null, state: string}} time */
const timeOf = ({ s, state }) =>
  [state === "done" ? "" : state.replace(/_/g, " "), s === null ? "" : seconds(s)].filter(Boolean).join(" ");
