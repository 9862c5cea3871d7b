// @ts-check
// What the answer of `history` means, for plots and tables. Pure.
import { crossed, most, short, sum } from "./hour.js";
import { costWords, money, number, seconds } from "../shared/words.js";

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

/** The plots of the page, as those of an hour. @param {History} made @returns {import("./hour.js").PlotOf[]} */
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
