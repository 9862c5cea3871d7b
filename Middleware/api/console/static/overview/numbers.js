// @ts-check
// What the answers of `numbers` and `history` mean, for plots and tables. Pure.
import { clock, costWords, money, number, seconds, size } from "../shared/words.js";

/**
 * @typedef {{ step_s: number, end: number, series: Record<string, (number | null)[]> }} Hour
 * @typedef {{ title: string, crosses?: (number | null)[], whole?: boolean, tell: (value: number) => string, curves:
 *   import("../shared/plot.js").Curve[], said: string }} PlotOf */

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
const sum = (values) => values.reduce((/** @type {number} */ all, value) => all + (value ?? 0), 0);

/** @param {(number | null)[]} values */
const most = (values) =>
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

/** Four numbers of the hour, in words; what runs or waits is among the requests. @param {Hour} hour
 * @returns {[string, string][]} */
export function totals(hour) {
  const after = sum(hour.series.tokens_after);
  const open = (hour.series.running.at(-1) ?? 0) + (hour.series.waiting.at(-1) ?? 0);
  return [
    [open ? `requests, ${number(open)} not ended yet` : "requests", number(sum(hour.series.requests))],
    ["failed", number(sum(hour.series.failed))],
    [after ? `tokens out, ${number(after)} after the answer` : "tokens out", number(sum(hour.series.tokens))],
    ["first token, usually", seconds(usualFirst(hour))],
  ];
}

const short = (/** @type {number} */ value) => number(Math.round(value * 10) / 10);
/** Crosses where something failed. @param {(number | null)[]} failed */
const crossed = (failed) => failed.map((value) => (value ? 0 : null));

/**
 * The plots of the page. `kind`: whose colour of the shapes of time a curve has; `whole`: marks at whole numbers only;
 * `tell`: a value in words; `said`: the plot in words.
 * @param {Hour} hour
 * @returns {PlotOf[]}
 */
export function hourPlots({ series, step_s: step }) {
  const perSecond = series.tokens.map((value) => (value === null ? null : value / step));
  const memory = most(series.memory_mb);
  return [
    {
      title: "Requests",
      crosses: crossed(series.failed),
      whole: true,
      tell: short,
      curves: [{ label: "requests", kind: "say", filled: true, values: series.requests }],
      said: `Requests: ${sum(series.requests)} within the hour, ${sum(series.failed)} failed`,
    },
    {
      title: "Tokens a second",
      tell: short,
      curves: [{ label: "tokens a second", kind: "say", filled: true, values: perSecond }],
      said: `Tokens a second: at most ${short(most(perSecond) ?? 0)}`,
    },
    {
      title: "First token",
      tell: seconds,
      curves: [
        { label: "median", kind: "say", values: series.first_p50 },
        { label: "95 %", kind: "think", values: series.first_p95 },
      ],
      said: `First token: median at most ${told(most(series.first_p50))}, 95 % at most ${told(most(series.first_p95))}`,
    },
    {
      title: "Running and waiting",
      whole: true,
      tell: short,
      curves: [
        { label: "running", kind: "say", values: series.running },
        { label: "waiting", kind: "queue", values: series.waiting },
      ],
      said: `At most ${most(series.running) ?? 0} running, ${most(series.waiting) ?? 0} waiting`,
    },
    {
      title: "Cancellations",
      whole: true,
      tell: short,
      curves: [{ label: "cancelled", kind: "other", filled: true, values: series.cancelled }],
      said: `Cancellations: ${sum(series.cancelled)} within the hour`,
    },
    {
      title: "Memory",
      tell: (value) => size(value * 1e6),
      curves: [{ label: "memory", kind: "other", filled: true, values: series.memory_mb }],
      said: `Memory: ${memory === null ? "not available on this system" : `at most ${Math.round(memory)} MB`}`,
    },
  ];
}

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

/**
 * @typedef {{ name: string, requests: number, failed: number, cancelled: number, prompt_tokens: number,
 *   completion_tokens: number,
 *   held: number | null, first_s: number | null, took_s: number | null, cost: import("../shared/types.js").Costs | null
 *   }} Group */
/**
 * @typedef {{ span: "hours" | "days" | "weeks", starts: number[], end: number, series: Record<string, (number |
 *   null)[]>,
 *   costs: Record<string, number[]>, groups: Group[], lost: number }} History */

export const SPANS = [
  ["hour", "the last hour"],
  ["hours", "hours"],
  ["days", "days"],
  ["weeks", "weeks"],
];
export const BYS = [
  ["user", "user"],
  ["key", "key"],
  ["endpoint", "endpoint"],
  ["workflow", "workflow"],
];

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/** `Fri 18:00` for an hour, `28 Nov` for a day or a week. @param {number} unix @param {string} span */
export function slotWords(unix, span) {
  const then = new Date(unix * 1000);
  if (span === "hours") return `${DAYS[then.getDay()]} ${String(then.getHours()).padStart(2, "0")}:00`;
  return `${then.getDate()} ${then.toDateString().split(" ")[1]}`;
}

/** The plots of the page, as those of an hour. @param {History} made @returns {PlotOf[]} */
export function plotsOf({ series, costs }) {
  const slow = most(series.first_p50);
  return [
    {
      title: "Requests",
      crosses: crossed(series.failed),
      whole: true,
      tell: short,
      curves: [{ label: "requests", kind: "say", filled: true, values: series.requests }],
      said: `Requests: ${sum(series.requests)}, ${sum(series.failed)} failed`,
    },
    {
      title: "Tokens",
      whole: true,
      tell: short,
      curves: [{ label: "tokens", kind: "say", filled: true, values: series.tokens }],
      said: `Tokens: ${sum(series.tokens)}`,
    },
    {
      title: "First token",
      tell: seconds,
      curves: [
        { label: "median", kind: "say", values: series.first_p50 },
        { label: "95 %", kind: "think", values: series.first_p95 },
      ],
      said: `First token: median at most ${slow === null ? "unknown" : seconds(slow)}`,
    },
    ...Object.entries(costs).map(([currency, values]) => ({
      title: `Cost in ${currency}`,
      tell: money,
      curves: [{ label: currency, kind: "other", filled: true, values }],
      said: `Cost: ${money(sum(values))} ${currency}`,
    })),
  ];
}

/** What is said of a group, by the heading of its column. @param {Group} group @returns {Record<string, string>} */
export function groupRow(group) {
  return {
    requests: number(group.requests),
    failed: number(group.failed),
    cancelled: number(group.cancelled),
    "tokens in": number(group.prompt_tokens),
    held: number(group.held),
    "tokens out": number(group.completion_tokens),
    "first token": seconds(group.first_s),
    took: seconds(group.took_s),
    cost: group.cost ? costWords(group.cost) : "",
  };
}

/** The slots in which something happened, newest first. @param {History} made @returns {Record<string, string>[]} */
export function slotRows({ span, starts, series, costs }) {
  const slots = starts.map((begin, at) => ({ begin, at })).filter(({ at }) => series.requests[at]);
  return slots.reverse().map(({ begin, at }) => ({
    from: slotWords(begin, span),
    requests: number(series.requests[at]),
    failed: number(series.failed[at]),
    cancelled: number(series.cancelled[at]),
    tokens: number(series.tokens[at]),
    "first token": seconds(series.first_p50[at]),
    "95 %": seconds(series.first_p95[at]),
    ...Object.fromEntries(Object.entries(costs).map(([currency, values]) => [currency, money(values[at])])),
  }));
}
