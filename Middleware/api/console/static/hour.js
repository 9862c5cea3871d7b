// @ts-check
// What the answer of `numbers` means, for plots and table. Pure.
import { clock, number, seconds, size } from "./words.js";

/** @typedef {{ step_s: number, end: number, series: Record<string, (number | null)[]> }} Hour */

/** The moment at which each slot begins. @param {Hour} hour @returns {number[]} */
export function xs(hour) {
  const many = hour.series.requests.length;
  return Array.from({ length: many }, (_, at) => hour.end - (many - at) * hour.step_s);
}

/** @param {(number | null)[]} values */
const sum = (values) => values.reduce((/** @type {number} */ all, value) => all + (value ?? 0), 0);

/** @param {(number | null)[]} values */
const most = (values) => values.reduce((/** @type {number | null} */ best, value) => (value === null ? best : Math.max(best ?? value, value)), null);

/** The median of slots, each as often as it had requests. @param {Hour} hour @returns {number | null} */
export function usualFirst(hour) {
  const known = hour.series.first_p50.map((value, at) => ({ value, weight: Math.max(1, hour.series.requests[at] ?? 0) })).filter((one) => one.value !== null);
  known.sort((one, two) => Number(one.value) - Number(two.value));
  let left = known.reduce((all, one) => all + one.weight, 0) / 2;
  for (const one of known) if ((left -= one.weight) <= 0) return one.value;
  return null;
}

/** Four numbers of the hour, in words. @param {Hour} hour @returns {[string, string][]} */
export function totals(hour) {
  const first = usualFirst(hour);
  return [
    ["requests", number(sum(hour.series.requests))],
    ["failed", number(sum(hour.series.failed))],
    ["tokens", number(sum(hour.series.tokens))],
    ["first token, usually", first === null ? "–" : seconds(first)],
  ];
}

/** @param {string} name @returns {(hour: Hour) => (number | null)[]} */
const series = (name) => (hour) => hour.series[name];
const perSecond = (/** @type {Hour} */ hour) => hour.series.tokens.map((value) => (value === null ? null : value / hour.step_s));
const short = (/** @type {number} */ value) => number(Math.round(value * 10) / 10);

export const PLOTS = [
  { title: "Requests", failed: true, whole: true, tell: short, curves: [{ label: "requests", colour: "--w-say", swatch: "k-say", filled: true, of: series("requests") }],
    said: (/** @type {Hour} */ hour) => `Requests: ${sum(hour.series.requests)} within the hour, ${sum(hour.series.failed)} failed` },
  { title: "Tokens a second", failed: false, whole: false, tell: short, curves: [{ label: "tokens a second", colour: "--w-say", swatch: "k-say", filled: true, of: perSecond }],
    said: (/** @type {Hour} */ hour) => `Tokens a second: at most ${short(most(perSecond(hour)) ?? 0)}` },
  { title: "First token", failed: false, whole: false, tell: seconds, curves: [
      { label: "median", colour: "--w-say", swatch: "k-say", filled: false, of: series("first_p50") },
      { label: "95 %", colour: "--w-think", swatch: "k-think", filled: false, of: series("first_p95") }],
    said: (/** @type {Hour} */ hour) => `First token: median at most ${told(most(hour.series.first_p50))}, 95 % at most ${told(most(hour.series.first_p95))}` },
  { title: "Running and waiting", failed: false, whole: true, tell: short, curves: [
      { label: "running", colour: "--w-say", swatch: "k-say", filled: false, of: series("running") },
      { label: "waiting", colour: "--w-queue", swatch: "k-queue", filled: false, of: series("waiting") }],
    said: (/** @type {Hour} */ hour) => `At most ${most(hour.series.running) ?? 0} running, ${most(hour.series.waiting) ?? 0} waiting` },
  { title: "Cancellations", failed: false, whole: true, tell: short, curves: [{ label: "cancelled", colour: "--w-other", swatch: "k-other", filled: true, of: series("cancelled") }],
    said: (/** @type {Hour} */ hour) => `Cancellations: ${sum(hour.series.cancelled)} within the hour` },
  { title: "Memory", failed: false, whole: false, tell: (/** @type {number} */ value) => size(value * 1e6), curves: [{ label: "memory", colour: "--w-other", swatch: "k-other", filled: true, of: series("memory_mb") }],
    said: (/** @type {Hour} */ hour) => `Memory: ${most(hour.series.memory_mb) === null ? "not told by this system" : `at most ${Math.round(most(hour.series.memory_mb) ?? 0)} MB`}` },
];

/** @param {number | null} value */
const told = (value) => (value === null ? "unknown" : seconds(value));

/** @param {number | null} value */
const spoken = (value) => (value === null ? null : seconds(value));

/** The slots in which something happened, newest first. @param {Hour} hour @returns {Record<string, any>[]} */
export function rows(hour) {
  const at = xs(hour);
  const busy = ["requests", "failed", "cancelled", "tokens", "running", "waiting"];
  const made = [];
  for (let slot = at.length - 1; slot >= 0; slot--) {
    if (!busy.some((name) => hour.series[name][slot])) continue;
    const of = (/** @type {string} */ name) => hour.series[name][slot];
    made.push({
      from: clock(at[slot]), requests: of("requests"), failed: of("failed"), cancelled: of("cancelled"), tokens: of("tokens"),
      "first token": spoken(of("first_p50")), "95 %": spoken(of("first_p95")), running: of("running"), waiting: of("waiting"), "memory MB": of("memory_mb"),
    });
  }
  return made;
}
