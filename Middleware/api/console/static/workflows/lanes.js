// @ts-check
// Which arcs the picture of a workflow has, and which lane each runs in. Pure: rows and uses in, arcs out.
// Source: spec console.md 9.4, vector 16.5.

import { hueOf } from "../shared/names.js";

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
