// @ts-check
// What the answer of `numbers` means, for plots and table. Pure.
import { clock, number, seconds, size } from "../shared/words.js";

/** @typedef {{ step_s: number, end: number, series: Record<string, (number | null)[]> }} Hour */

/**
 * The hour from its first value on: a server that has just started has no long empty past.
 * @param {Hour} hour
 * @returns {Hour}
 */
export function sinceFirst(hour) {
  const first = hour.series.requests.findIndex((value) => value !== null);
  if (first < 1) return hour;
  return {
    ...hour,
    series: Object.fromEntries(Object.entries(hour.series).map(([name, values]) => [name, values.slice(first)])),
  };
}

/** The moment at which each slot begins. @param {Hour} hour @returns {number[]} */
export function xs(hour) {
  const many = hour.series.requests.length;
  return Array.from({ length: many }, (_, at) => hour.end - (many - at) * hour.step_s);
}

/** @param {(number | null)[]} values */
export const sum = (values) => values.reduce((/** @type {number} */ all, value) => all + (value ?? 0), 0);

/** @param {(number | null)[]} values */
export const most = (values) =>
  values.reduce(
    (/** @type {number | null} */ best, value) => (value === null ? best : Math.max(best ?? value, value)),
    null,
  );

/** The median of slots, each as often as it had requests. @param {Hour} hour @returns {number | null} */
export function usualFirst(hour) {
  const known = hour.series.first_p50
    .map((value, at) => ({ value, weight: Math.max(1, hour.series.requests[at] ?? 0) }))
    .filter((one) => one.value !== null);
  known.sort((one, two) => Number(one.value) - Number(two.value));
  let left = known.reduce((all, one) => all + one.weight, 0) / 2;
  for (const one of known) if ((left -= one.weight) <= 0) return one.value;
  return null;
}

/** Four numbers of the hour, in words. @param {Hour} hour @returns {[string, string][]} */
export function totals(hour) {
  const after = sum(hour.series.tokens_after);
  return [
    ["requests", number(sum(hour.series.requests))],
    ["failed", number(sum(hour.series.failed))],
    [after ? `tokens, ${number(after)} after the answer` : "tokens", number(sum(hour.series.tokens))],
    ["first token, usually", seconds(usualFirst(hour))],
  ];
}

/** @param {string} name @returns {(hour: Hour) => (number | null)[]} */
const series = (name) => (hour) => hour.series[name];
const perSecond = (/** @type {Hour} */ hour) =>
  hour.series.tokens.map((value) => (value === null ? null : value / hour.step_s));
export const short = (/** @type {number} */ value) => number(Math.round(value * 10) / 10);

/** The plots of the page. `kind`: whose colour of the shapes of time a curve has; `whole`: marks at whole numbers only;
 * `tell`: a value in words; `said`: the plot in words. */
export const PLOTS = [
  {
    title: "Requests",
    failed: true,
    whole: true,
    tell: short,
    curves: [{ label: "requests", kind: "say", filled: true, of: series("requests") }],
    said: (/** @type {Hour} */ hour) =>
      `Requests: ${sum(hour.series.requests)} within the hour, ${sum(hour.series.failed)} failed`,
  },
  {
    title: "Tokens a second",
    tell: short,
    curves: [{ label: "tokens a second", kind: "say", filled: true, of: perSecond }],
    said: (/** @type {Hour} */ hour) => `Tokens a second: at most ${short(most(perSecond(hour)) ?? 0)}`,
  },
  {
    title: "First token",
    tell: seconds,
    curves: [
      { label: "median", kind: "say", of: series("first_p50") },
      { label: "95 %", kind: "think", of: series("first_p95") },
    ],
    said: (/** @type {Hour} */ hour) =>
      `First token: median at most ${told(most(hour.series.first_p50))}, ` +
        `95 % at most ${told(most(hour.series.first_p95))}`,
  },
  {
    title: "Running and waiting",
    whole: true,
    tell: short,
    curves: [
      { label: "running", kind: "say", of: series("running") },
      { label: "waiting", kind: "queue", of: series("waiting") },
    ],
    said: (/** @type {Hour} */ hour) =>
      `At most ${most(hour.series.running) ?? 0} running, ${most(hour.series.waiting) ?? 0} waiting`,
  },
  {
    title: "Cancellations",
    whole: true,
    tell: short,
    curves: [{ label: "cancelled", kind: "other", filled: true, of: series("cancelled") }],
    said: (/** @type {Hour} */ hour) => `Cancellations: ${sum(hour.series.cancelled)} within the hour`,
  },
  {
    title: "Memory",
    tell: (/** @type {number} */ value) => size(value * 1e6),
    curves: [{ label: "memory", kind: "other", filled: true, of: series("memory_mb") }],
    said: (/** @type {Hour} */ hour) =>
      `Memory: ${most(hour.series.memory_mb) === null ? "not available on this system"
        : `at most ${Math.round(most(hour.series.memory_mb) ?? 0)} MB`}`,
  },
];

/** @param {number | null} value */
const told = (value) => (value === null ? "unknown" : seconds(value));

/** What a slot says, by the heading of its column. */
const COLUMNS = {
  requests: "requests",
  failed: "failed",
  cancelled: "cancelled",
  tokens: "tokens",
  "after the answer": "tokens_after",
  "first token": "first_p50",
  "95 %": "first_p95",
  running: "running",
  waiting: "waiting",
  "memory MB": "memory_mb",
};
const BUSY = ["requests", "failed", "cancelled", "tokens", "running", "waiting"];

/** The slots in which something happened, newest first. @param {Hour} hour @returns {Record<string, any>[]} */
export function rows(hour) {
  const slots = xs(hour)
    .map((begin, slot) => ({ begin, slot }))
    .filter(({ slot }) => BUSY.some((name) => hour.series[name][slot]));
  return slots.reverse().map(({ begin, slot }) => ({
    from: clock(begin),
    ...Object.fromEntries(
      Object.entries(COLUMNS).map(([title, name]) => {
        const value = hour.series[name][slot];
        return [title, value !== null && name.startsWith("first") ? seconds(value) : value];
      }),
    ),
  }));
}
