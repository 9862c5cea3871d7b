// @ts-check
// The waterfall in numbers: its axis, its rows in their order, the bars of a node. Pure.
import { seconds } from "../shared/words.js";

/**
 * @typedef {import("../shared/types.js").Run} Run
 * @typedef {import("../shared/types.js").Node} Node
 * @typedef {import("../shared/types.js").Call} Call
 * @typedef {import("../shared/types.js").Part} Part
 * @typedef {{kind: Part, from: number, to: number}} Bar
 * @typedef {{type: "node", node: Node, depth: number, grouped: boolean}
 *   | {type: "call", node: Node, call: Call, depth: number, grouped: boolean}
 *   | {type: "calls", node: Node, open: boolean, depth: number, grouped: boolean}
 *   | {type: "fold", node: Node, count: number, open: boolean, depth: number, grouped: boolean}
 *   | {type: "line"}} Row
 * @typedef {number | "request" | "answer"} Shown what is shown of a run: a node, or one of its ends
 */

const MOST_TICKS = 7;
const MOST_ROWS = 12;
/** More calls of a node than these are one row at first. */
export const MOST_CALLS = 4;
/** Less than this is what a backend needs to see that the model is loaded. */
const LOAD_S = 0.25;

/**
 * Places of the marks: the smallest step of 1, 2 or 5 x 10^n that gives at most 7.
 * @param {number} from
 * @param {number} to
 */
export function ticks(from, to) {
  const span = to - from;
  if (!(span > 0)) return { step: 1, at: [from] };
  for (let power = Math.floor(Math.log10(span / MOST_TICKS)); ; power++) {
    for (const digit of [1, 2, 5]) {
      const step = digit * 10 ** power;
      const first = Math.ceil(from / step - 1e-9);
      const count = Math.floor(to / step + 1e-9) - first + 1;
      if (count <= MOST_TICKS)
        return { step, at: Array.from({ length: count }, (_, i) => exact((first + i) * step, power)) };
    }
  }
}

/** @param {number} value @param {number} power */
const exact = (value, power) => Number(value.toFixed(Math.max(0, -power)));

/** `0 s`, `0.05`, `30`, `8 min 20 s`. @param {number} at @param {number} index @param {number} step */
export function tickWords(at, index, step) {
  if (at >= 60) return seconds(at);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const digits = at === 0 ? "0" : at.toFixed(decimals);
  return index ? digits : `${digits}\u202fs`;
}

/** Seconds as the column at the right says them: the axis has the unit. @param {number | null} span */
export const spanWords = (span) => seconds(span).replace(/^([\d.]+)\u202fs$/, "$1");

/** Nodes in order of start, nested ones below theirs; `open`: nodes whose many nested ones are shown, and as `c3`
 * those whose many calls are.
 * @param {Node[]} nodes @param {ReadonlySet<number | string>} open @returns {Row[]} */
export function rowsOf(nodes, open) {
  const below = /** @type {Map<number | null, Node[]>} */ (new Map());
  for (const node of nodes) below.set(node.parent, [...(below.get(node.parent) ?? []), node]);
  /** @param {number | null} parent @returns {number} */
  const count = (parent) => (below.get(parent) ?? []).reduce((sum, { i }) => sum + 1 + count(i), 0);
  /** @param {number | null} parent @param {number} depth @param {boolean} inGroup @returns {Row[]} */
  const rows = (parent, depth, inGroup) => {
    const siblings = below.get(parent) ?? [];
    return siblings.flatMap((node, at) => {
      const grouped =
        inGroup ||
        (node.group !== null && (siblings[at - 1]?.group === node.group || siblings[at + 1]?.group === node.group));
      const line = parent === null && node.after && !siblings.slice(0, at).some(({ after }) => after);
      const many = node.calls.length > MOST_CALLS;
      const shown = node.calls.length > 1 && (!many || open.has(`c${node.i}`)) ? node.calls : [];
      const calls = [
        ...(many
          ? [/** @type {Row} */ ({ type: "calls", node, open: shown.length > 0, depth: depth + 1, grouped })]
          : []),
        ...shown.map((call) => /** @type {Row} */ ({ type: "call", node, call, depth: depth + 1, grouped })),
      ];
      const inside = count(node.i);
      const folds = inside > MOST_ROWS;
      return [
        ...(line ? [/** @type {Row} */ ({ type: "line" })] : []),
        /** @type {Row} */ ({ type: "node", node, depth, grouped }),
        ...calls,
        ...(folds
          ? [
              /** @type {Row} */ ({
                type: "fold",
                node,
                count: inside,
                open: open.has(node.i),
                depth: depth + 1,
                grouped,
              }),
            ]
          : []),
        ...(folds && !open.has(node.i) ? [] : rows(node.i, depth + 1, grouped)),
      ];
    });
  };
  return rows(null, 0, false);
}

/** The nodes below which one stands, the nearest first. @param {Node[]} nodes @param {number} i @returns {number[]} */
export function above(nodes, i) {
  const parent = nodes[i]?.parent ?? null;
  return parent === null ? [] : [parent, ...above(nodes, parent)];
}

/** The bars of a node, in order; `now`: seconds since arrival, where an unfinished one ends.
 * @param {Node} node @param {Run} run @param {number} now @returns {Bar[]} */
export function barsOf(node, run, now) {
  const { begun_s: from, ended_s, after, answers, calls } = node;
  if (from === null) return [];
  const to = ended_s ?? now;
  const asked = calls.filter(({ kind }) => kind === "model");
  const parts = () => {
    if (after || !asked.length) return bars([[after ? "after" : "other", from, to]]);
    if (answers) return answering(from, to, asked.at(-1), run);
    return asking(
      from,
      to,
      asked.find(({ first_s }) => first_s !== null),
    );
  };
  return node.waits.reduce(
    (made, { begun_s, ended_s: until }) => made.flatMap((bar) => cutOut(bar, begun_s, until ?? to)),
    parts(),
  );
}

/**
 * A bar without the time in which a call waited for its turn, and that time as a bar of its own; what is said while
 *   another call waits stays whole.
 * @param {Bar} bar @param {number} from @param {number} to @returns {Bar[]} */
function cutOut(bar, from, to) {
  const begin = Math.max(bar.from, from);
  const end = Math.min(bar.to, to);
  if (bar.kind === "think" || bar.kind === "say" || end - begin <= 1e-6) return [bar];
  return bars([
    [bar.kind, bar.from, begin],
    ["queue", begin, end],
    [bar.kind, end, bar.to],
  ]);
}

/**
 * @param {number} from
 * @param {number} to
 * @param {Call | undefined} call whose text is the answer
 * @param {Run} run
 * @returns {Bar[]}
 */
function answering(from, to, call, run) {
  const first = call?.first_s ?? null;
  const text = run.first_s ?? to;
  const thinks = first !== null && run.shape.some(([part]) => part === "think");
  const start = thinks ? Math.min(first, text) : text;
  return bars([...waiting(from, start, call), ["think", start, text], ["say", text, to]]);
}

/** @param {number} from @param {number} to @param {Call | undefined} call the first that got a word @returns {Bar[]} */
function asking(from, to, call) {
  const first = call?.first_s ?? to;
  return bars([...waiting(from, first, call), ["say", first, to]]);
}

/** The time until the first token, and in it that in which the backend loaded the model.
 * @param {number} from @param {number} to @param {Call | undefined} call @returns {[Part, number, number][]} */
function waiting(from, to, call) {
  const load = call?.load_s ?? 0;
  if (load < LOAD_S) return [["first", from, to]];
  const begin = Math.min(Math.max(call?.sent_s ?? from, from), to);
  const end = Math.min(begin + load, to);
  return [
    ["first", from, begin],
    ["load", begin, end],
    ["first", end, to],
  ];
}

/** @param {Call} call @param {number} now @returns {Bar[]} */
export function callBars(call, now) {
  const { kind, begun_s: from, ended_s } = call;
  if (from === null) return [];
  const to = ended_s ?? now;
  return kind === "model" ? asking(from, to, call) : bars([[kind === "prefill" ? "prefill" : "other", from, to]]);
}

/**
 * Those that have a length; a node that took no time keeps its last.
 * @param {[Part, number, number][]} parts
 * @returns {Bar[]}
 */
function bars(parts) {
  const all = parts.map(([kind, from, to]) => ({ kind, from, to: Math.max(from, to) }));
  const long = all.filter(({ from, to }) => to - from > 1e-6);
  return long.length ? long : all.slice(0, 1);
}

/** From the first of a node's calls to the last. @param {Node} node @param {number} now @returns {Bar[]} */
export function allCallsBars({ calls, after }, now) {
  const from = Math.min(...calls.map(({ begun_s }) => begun_s ?? now));
  const to = Math.max(...calls.map(({ ended_s }) => ended_s ?? now));
  return bars([[after ? "after" : "first", from, to]]);
}

/**
 * Where a run ends on the axis: its end, that of what is read ahead for the next one, or now.
 * @param {Run} run
 * @param {number} now
 */
export function endOf(run, now) {
  const all = run.nodes.flatMap((node) => [node, ...node.calls]);
  return Math.max(run.took_s, now, ...all.map(({ ended_s, begun_s }) => ended_s ?? begun_s ?? 0)) || 0.01;
}

/** What is shown at first: the node that failed, else the answer; of one that waits what was asked.
 * @param {Run} run @returns {Shown} */
export function firstPart({ nodes, state }) {
  if (state === "waiting") return "request";
  const failed = nodes.filter((node) => node.state === "failed");
  return failed.reduce((best, node) => (node.depth > best.depth ? node : best), failed[0])?.i ?? "answer";
}

/** The node that answers, the deepest of them, else the first. @param {Node[]} nodes */
export function firstNode(nodes) {
  const answers = nodes.filter((node) => node.answers && node.begun_s !== null);
  return answers.reduce((best, node) => (node.depth > best.depth ? node : best), answers[0])?.i ?? 0;
}
