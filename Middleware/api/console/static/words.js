// @ts-check
// Numbers, times and states as the page says them (spec console.md 13.3). Pure.

const THIN = "\u202f";

/** `0.8 s`, `12 s`, `3 min 20 s`. @param {number | null | undefined} value */
export function seconds(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value < 0.01) return `<${THIN}10${THIN}ms`;
  if (value < 0.095) return `${value.toFixed(2)}${THIN}s`;
  if (value < 9.95) return `${value.toFixed(1)}${THIN}s`;
  const whole = Math.round(value);
  if (whole < 60) return `${whole}${THIN}s`;
  const [minutes, rest] = [Math.floor(whole / 60), whole % 60];
  if (minutes < 60) return `${minutes}${THIN}min${rest ? ` ${rest}${THIN}s` : ""}`;
  return `${Math.floor(minutes / 60)}${THIN}h${minutes % 60 ? ` ${minutes % 60}${THIN}min` : ""}`;
}

/** With thin spaces from 1,000; a share of one keeps a digit. @param {number | null | undefined} value */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value > 0 && value < 0.95) return value.toFixed(1);
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, THIN);
}

/** `900 B`, `12 KB`, `1.2 MB`. @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes}${THIN}B`;
  const units = ["KB", "MB", "GB"];
  let value = bytes / 1000;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)}${THIN}${units[unit]}`;
}

/** Time of day, with the date when it is another day than `now`. @param {number} unix seconds @param {number} [now] */
export function clock(unix, now = Date.now() / 1000) {
  const then = new Date(unix * 1000);
  const time = [then.getHours(), then.getMinutes(), then.getSeconds()].map(two).join(":");
  if (then.toDateString() === new Date(now * 1000).toDateString()) return time;
  return `${then.getDate()} ${MONTHS[then.getMonth()]} ${time}`;
}

/** For a tooltip. @param {number} unix seconds */
export function moment(unix) {
  const then = new Date(unix * 1000);
  return `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())} ${[then.getHours(), then.getMinutes(), then.getSeconds()].map(two).join(":")}`;
}

/** `1st`, `2nd`, `11th`. @param {number} n */
export function ordinal(n) {
  const last = n % 100 > 10 && n % 100 < 14 ? 0 : n % 10;
  return `${n}${["th", "st", "nd", "rd"][last] ?? "th"}`;
}

/** `1 node`, `2 nodes`. @param {number} n @param {string} word */
export const counted = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

/** A sentence in which no line ends between a number and its unit. @param {string} text */
export const unbroken = (text) => text.replace(/(\d) (s|ms|min|KB|MB)(?![\p{L}\p{N}])/gu, "$1\u00a0$2");

/** What each part of a shape means. */
export const PARTS = { queue: "waiting for a slot", other: "before the answering node", first: "until the first token", think: "thinking", say: "answering", after: "after the answer" };

const STATES = /** @type {Record<string, string>} */ ({ went_on: "failed, the run went on", not_run: "not run", private: "private" });

/** A state in words. @param {string} state */
export const stateWords = (state) => STATES[state] ?? state.replace(/_/g, " ");

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
