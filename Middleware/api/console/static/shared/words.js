// @ts-check
// Numbers, times and states as the page says them (spec console.md 13.3). Pure.

const THIN = "\u202f";
const UNKNOWN = "–";

/** @param {number | null | undefined} value @returns {value is number} */
const isKnown = (value) => Number.isFinite(value);

/** `0.8 s`, `12 s`, `3 min 20 s`. @param {number | null | undefined} value */
export function seconds(value) {
  if (!isKnown(value)) return UNKNOWN;
  if (value < 0.01) return `<${THIN}10${THIN}ms`;
  if (value < 9.95) return `${value.toFixed(value < 0.095 ? 2 : 1)}${THIN}s`;
  const whole = Math.round(value);
  const minutes = Math.floor(whole / 60);
  if (!minutes) return `${whole}${THIN}s`;
  return minutes < 60
    ? inTwo(minutes, "min", whole % 60, "s")
    : inTwo(Math.floor(minutes / 60), "h", minutes % 60, "min");
}

/** @param {number} many @param {string} unit @param {number} rest @param {string} below its unit */
const inTwo = (many, unit, rest, below) => `${many}${THIN}${unit}${rest ? ` ${rest}${THIN}${below}` : ""}`;

/** With thin spaces from 1,000; a share of one keeps a digit. @param {number | null | undefined} value */
export function number(value) {
  if (!isKnown(value)) return UNKNOWN;
  if (value > 0 && value < 0.95) return value.toFixed(1);
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, THIN);
}

/** `about 0.0123 USD`; currencies are never added. @param {import("./types.js").Costs} costs */
export const costWords = ({ amounts, about }) =>
  `${about ? "about " : ""}${Object.entries(amounts)
    .map(([currency, amount]) => `${money(amount)}${THIN}${currency}`)
    .join(" and ")}`;

/** With at least two decimals, small amounts with two digits that say something. @param {number} amount */
export function money(amount) {
  const places = amount > 0 && amount < 0.1 ? Math.min(6, 1 - Math.floor(Math.log10(amount))) : 2;
  return amount.toFixed(places);
}

/** `900 B`, `1.2 KB`, `12 MB`. @param {number} bytes */
export function size(bytes) {
  const units = ["B", "KB", "MB", "GB"];
  let unit = 0;
  for (; bytes >= 999.5 && unit < units.length - 1; unit++) bytes /= 1000;
  return `${unit && bytes < 9.95 ? bytes.toFixed(1) : Math.round(bytes)}${THIN}${units[unit]}`;
}

/** Time of day, with the date when it is another day than `now`. @param {number} unix seconds @param {number} [now] */
export function clock(unix, now = Date.now() / 1000) {
  const then = new Date(unix * 1000);
  if (then.toDateString() === new Date(now * 1000).toDateString()) return timeOf(then);
  const [, month] = then.toDateString().split(" ");
  return `${then.getDate()} ${month} ${timeOf(then)}`;
}

/** For a tooltip. @param {number} unix seconds */
export function moment(unix) {
  const then = new Date(unix * 1000);
  const [month, day] = [then.getMonth() + 1, then.getDate()].map((n) => String(n).padStart(2, "0"));
  return `${then.getFullYear()}-${month}-${day} ${timeOf(then)}`;
}

/** `12:04:31`. @param {Date} then */
const timeOf = (then) => then.toTimeString().slice(0, 8);

/** `1 node`, `2 nodes`. @param {number} n @param {string} word */
export const counted = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

/**
 * `1,204 in, 56 out, 2 calls`; nothing where no model was called.
 * @param {import("./types.js").Used} used
 */
export const usedWords = ({ prompt_tokens: prompt, completion_tokens: completion, calls }) =>
  (calls ?? 0) > 0 &&
  listed(prompt && `${number(prompt)} in`, completion && `${number(completion)} out`, counted(calls ?? 0, "call"));

/** `95 % held`. @param {number} share from 0 to 1 */
export const shareWords = (share) => `${Math.round(100 * share)}${THIN}% held`;

/** A sentence in which no line ends between a number and its unit. @param {string} text */
export const unbroken = (text) => text.replace(/(\d) (s|ms|min|KB|MB)(?![\p{L}\p{N}])/gu, "$1\u00a0$2");

/** What each part of a shape means. */
export const PARTS = {
  queue: "waiting for a slot",
  other: "before the answering node",
  load: "loading the model",
  first: "until the first token",
  think: "thinking",
  say: "answering",
  after: "after the answer",
  prefill: "reading ahead",
};

/** A state in words. @param {string} state */
export const stateWords = (state) => OTHER_WORDS[state] ?? state.replace(/_/g, " ");
const OTHER_WORDS = /** @type {Record<string, string>} */ ({
  went_on: "failed, but the run went on",
  kept: "not run again: it gave its old output",
  trouble: "done, with trouble",
});

/** What there is of these, with commas. @param {(string | number | false | null | undefined)[]} words */
export const listed = (...words) => words.filter(Boolean).join(", ");

/** `Ollama: smollm2:135m`, `llama.cpp: big, 1 of 2 slots busy`. @param {import("./types.js").LoadedPlace} place */
export function loadedWords({ server, models, slots }) {
  const busy = slots && `${slots.busy} of ${counted(slots.total, "slot")} busy`;
  return `${server}: ${listed(models.length ? models.join(", ") : "no model", busy)}`;
}

/** What a server says, as a sentence of its own. @param {string} text */
export const sentence = (text) => text.slice(0, 1).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

// --- what is asked of a run on every page ---

/** States of a run that goes on. */
export const ACTIVE = ["waiting", "running", "answering", "finishing"];

/** @param {{state: string}} run */
export const isActive = ({ state }) => ACTIVE.includes(state);

/** @param {{shape: [string, number][]}} run */
export const lengthOf = ({ shape }) => shape.reduce((sum, [, length]) => sum + length, 0);
