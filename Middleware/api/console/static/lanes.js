// @ts-check
// Which arcs the picture of a workflow has, and which lane each runs in. Pure: rows and uses in, arcs out.
// Source: spec console.md 9.4, vector 16.5.

/**
 * @typedef {{n: number, uses: {n: number}[]}} Using
 * @typedef {{from: number, to: number, lane: number, ends: number[]}} Arc `from` and `to` count rows from 0; `ends`: the nodes at both ends
 */

/**
 * One arc per pair of rows, from the row that gives to the row that uses; never upward, never inside a row.
 * @param {number[][]} rows
 * @param {Using[]} nodes
 * @returns {Arc[]} the shorter ones first
 */
export function arcsOf(rows, nodes) {
  const rowOf = new Map(rows.flatMap((row, at) => row.map((n) => [n, at])));
  /** @type {Map<string, {from: number, to: number, ends: Set<number>}>} */
  const pairs = new Map();
  for (const node of nodes) {
    const to = rowOf.get(node.n);
    for (const use of node.uses) {
      const from = rowOf.get(use.n);
      if (from === undefined || to === undefined || from >= to) continue;
      const key = `${from} ${to}`;
      const pair = pairs.get(key) ?? { from, to, ends: new Set() };
      pairs.set(key, pair);
      pair.ends.add(use.n).add(node.n);
    }
  }
  return laid([...pairs.values()].map((pair) => ({ ...pair, ends: [...pair.ends] })));
}

/**
 * Shorter arcs lie inside: each takes the first lane in which it overlaps none.
 * @param {{from: number, to: number, ends: number[]}[]} pairs
 * @returns {Arc[]}
 */
function laid(pairs) {
  /** @type {[number, number][][]} */
  const lanes = [];
  const length = (/** @type {{from: number, to: number}} */ pair) => pair.to - pair.from;
  return pairs
    .sort((a, b) => length(a) - length(b) || a.from - b.from)
    .map((pair) => {
      let lane = lanes.findIndex((taken) => taken.every(([from, to]) => pair.to <= from || pair.from >= to));
      if (lane < 0) lane = lanes.push([]) - 1;
      lanes[lane].push([pair.from, pair.to]);
      return { ...pair, lane };
    });
}

/** How far the first lane lies from the rows that it passes, and how far lanes lie apart. */
const FIRST_LANE = 16;
const LANE = 12;

/**
 * How far to the right each arc runs: beside the rows that it passes, in the first lane there that is free. Where
 * all rows are equally wide these are the lanes of `arcsOf`.
 * @param {Arc[]} arcs
 * @param {number[]} rights the right edge of each row, with what hangs below its cards
 * @param {number[]} cards the right edge of each row's cards, where an arc comes in
 * @returns {number[]}
 */
export function edgesOf(arcs, rights, cards) {
  /** @type {number[]} */
  const edges = [];
  arcs.forEach(({ from, to }, at) => {
    const passed = arcs.slice(0, at).map((arc, i) => ({ arc, edge: edges[i] })).filter(({ arc }) => from < arc.to && arc.from < to);
    let edge = Math.max(...rights.slice(from, to), cards[to]) + FIRST_LANE;
    while (passed.some((other) => Math.abs(other.edge - edge) < LANE)) edge += LANE;
    edges.push(edge);
  });
  return edges;
}

/**
 * The eight hues of the endpoints, by the order in which they appear in the file.
 * @param {{endpoint: {name: string | null, written: string} | null}[]} nodes
 * @returns {Map<string, number>} the shown name of an endpoint -> 1 to 8
 */
export function huesOf(nodes) {
  const hues = new Map();
  for (const { endpoint } of nodes) {
    const name = endpoint && shownName(endpoint);
    if (name && !hues.has(name)) hues.set(name, (hues.size % 8) + 1);
  }
  return hues;
}

/**
 * An endpoint's name, or what is written where only a run knows it.
 * @param {{name: string | null, written: string}} endpoint
 */
export const shownName = (endpoint) => endpoint.name ?? endpoint.written;
