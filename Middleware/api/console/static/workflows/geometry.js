// @ts-check
// Geometry of the picture: which arcs it has, which lane each runs in, and where a card that is dragged comes in.
// Sources: spec console.md 9.4, vector 16.5; workbench.md 2.
import { hueOf } from "../shared/names.js";

// --- arcs and lanes. Pure: rows and uses in, arcs out ---

/**
 * @typedef {{n: number, uses: {n: number}[]}} Using
 * @typedef {{from: number, to: number, ends: number[]}} Arc `from` and `to` count rows from 0; `ends`: the nodes at
 *   both ends
 */

/**
 * One arc per pair of rows, from the row that gives to the row that uses; never upward, never inside a row.
 * @param {number[][]} rows
 * @param {Using[]} nodes
 * @returns {Arc[]} the shorter ones first: they lie inside
 */
export function arcsOf(rows, nodes) {
  const rowOf = (/** @type {number} */ n) => rows.findIndex((row) => row.includes(n));
  /** @type {Map<string, Arc>} */
  const arcs = new Map();
  for (const { n, uses } of nodes)
    for (const use of uses) {
      const [from, to] = [rowOf(use.n), rowOf(n)];
      if (from < 0 || from >= to) continue;
      const ends = arcs.get(`${from} ${to}`)?.ends ?? [];
      arcs.set(`${from} ${to}`, { from, to, ends: [...new Set([...ends, use.n, n])] });
    }
  return [...arcs.values()].sort((a, b) => a.to - a.from - (b.to - b.from) || a.from - b.from);
}

/** How far the first lane lies from the rows that it passes, and how far lanes lie apart. */
const FIRST_LANE = 16;
const LANE = 12;

/**
 * How far to the right each arc runs: beside the rows that it passes, in the first lane there that is free.
 * @param {Arc[]} arcs
 * @param {number[]} rights the right edge of each row, with what hangs below its cards
 * @param {number[]} cards the right edge of each row's cards, where an arc comes in
 * @returns {number[]}
 */
export function edgesOf(arcs, rights, cards) {
  /** @type {number[]} */
  const edges = [];
  for (const { from, to } of arcs) {
    const taken = edges.filter((_, at) => from < arcs[at].to && arcs[at].from < to);
    let edge = Math.max(...rights.slice(from, to), cards[to]) + FIRST_LANE;
    while (taken.some((other) => Math.abs(other - edge) < LANE)) edge += LANE;
    edges.push(edge);
  }
  return edges;
}

/**
 * The hues of the endpoints.
 * @param {{endpoint: {name: string | null, written: string} | null}[]} nodes
 * @returns {Map<string, number>} the shown name of an endpoint -> 1 to 8
 */
export function huesOf(nodes) {
  const names = nodes.flatMap(({ endpoint }) => (endpoint ? shownName(endpoint) : []));
  return new Map(names.map((name) => [name, hueOf(name)]));
}

/**
 * An endpoint's name, or what is written where only a run knows it.
 * @param {{name: string | null, written: string}} endpoint
 */
export const shownName = (endpoint) => endpoint.name ?? endpoint.written;

// --- a card moved by the pointer, from `+` to `+` ---

/**
 * @typedef {{left: number, top: number, right: number, bottom: number}} Box
 * @typedef {{n: number, group: string, box: Box, frame?: Box}} Spot a `+`: `n`: the number of a node that comes in
 *   there; `group`: within which, its `frame`; empty: between two rows
 * @typedef {{n: number, from: number, group?: string}} Step the card `from` gets the number `n`; `group`: the one that
 *   it gets, empty: it leaves its own, absent: it keeps what it has
 */

/** What moves less is a click. */
const SLACK = 5;
/** So near to the edge of its pane the picture rolls on, so far at a time. */
const EDGE = 36;
const ROLL = 12;
const ROLL_MS = 40;

/**
 * Where a card comes in that is let go at a point: the nearest place in the group there, else the nearest between two
 * rows, however far to the side.
 * @template {Spot} T
 * @param {number} x @param {number} y @param {T[]} spots
 */
export function spotAt(x, y, spots) {
  const isOver = (/** @type {Box | undefined} */ box) =>
    box && box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
  const within = spots.filter(({ frame }) => isOver(frame));
  const far = (/** @type {Spot} */ { box: { left, top, right, bottom } }) =>
    Math.hypot(within.length && (left + right) / 2 - x, (top + bottom) / 2 - y);
  return (within.length ? within : spots.filter(({ frame }) => !frame)).sort((a, b) => far(a) - far(b))[0];
}

/**
 * What letting a card go there does; null: nothing.
 * @param {number} from its number @param {string} group the one that it is in @param {Spot} spot
 * @returns {Step | null}
 */
export function stepTo(from, group, spot) {
  const n = spot.n > from ? spot.n - 1 : spot.n;
  if (spot.group !== group) return { n, from, group: spot.group };
  return n === from ? null : { n, from };
}

/** @param {HTMLElement} plus */
const spotOf = (plus) => ({
  plus,
  n: Number(plus.dataset.n),
  group: plus.dataset.group ?? "",
  box: plus.getBoundingClientRect(),
  frame: plus.closest(".side")?.getBoundingClientRect(),
});

/**
 * Follows the pointer that went down on a card until it is let go; Escape leaves all as it is.
 * @param {PointerEvent} event on the picture @param {(step: Step) => void} drop
 */
export function follow({ target, currentTarget, pointerId, clientX, clientY }, drop) {
  const canvas = /** @type {HTMLElement} */ (currentTarget);
  const card = /** @type {HTMLElement | null} */ (/** @type {Element} */ (target).closest(".node"));
  if (!card || card.closest(".frame")) return;
  const stop = new AbortController();
  let [x, y] = [clientX, clientY];
  let step = /** @type {Step | null} */ (null);
  let clock = 0;
  const look = () => {
    const spots = /** @type {HTMLElement[]} */ ([...canvas.querySelectorAll(".plus")]).map(spotOf);
    const spot = spotAt(x, y, spots);
    const { group = "" } = spots.find(({ plus }) => plus.parentElement === card.parentElement) ?? {};
    step = clock > 0 ? stepTo(Number(card.dataset.n), group, spot) : null;
    card.toggleAttribute("data-held", clock > 0);
    for (const { plus } of spots) plus.toggleAttribute("data-here", step !== null && plus === spot.plus);
  };
  const roll = () => {
    const pane = /** @type {HTMLElement} */ (canvas.closest(".zoompane"));
    const { top, bottom } = pane.getBoundingClientRect();
    pane.scrollTop += y < top + EDGE ? -ROLL : y > bottom - EDGE ? ROLL : 0;
    look();
  };
  const letGo = () => {
    clearInterval(clock);
    clock = -1;
    look();
  };
  const heard = /** @type {Record<string, (event: any) => unknown>} */ ({
    pointermove(event) {
      [x, y] = [event.clientX, event.clientY];
      if (!clock && Math.hypot(x - clientX, y - clientY) >= SLACK) {
        canvas.setPointerCapture(pointerId);
        clock = setInterval(roll, ROLL_MS);
      }
      if (clock > 0) look();
    },
    pointerup() {
      if (step) drop(step);
      if (clock) letGo();
      setTimeout(() => stop.abort()); // behind the click
    },
    pointercancel() {
      letGo();
      stop.abort();
    },
    keydown(event) {
      if (event.key !== "Escape" || clock <= 0) return;
      event.preventDefault();
      letGo();
    },
    click: (event) => clock && event.stopPropagation(),
  });
  const options = { capture: true, signal: stop.signal };
  for (const [name, deed] of Object.entries(heard)) addEventListener(name, deed, options);
}
