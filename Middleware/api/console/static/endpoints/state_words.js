// @ts-check
// The state of an endpoint, in words. Pure.
import { clock, counted } from "../shared/words.js";

/** @type {Record<string, string>} */
export const MARKS = { well: "done", failing: "failed", quiet: "quiet" };
export const NOT_CALLED = "not called yet";
/** So many of the newest calls are told. */
const MOST_CALLS = 100;

/** How the unbroken row of calls reads. @param {import("./endpoints.js").Endpoint} one */
export function stateWords(one) {
  if (one.state === "quiet") return NOT_CALLED;
  const row = one.calls.length - 1 - one.calls.map((call) => call[3] === (one.state === "well")).lastIndexOf(false);
  const calls = row === MOST_CALLS ? `${row} or more calls` : counted(row, "call");
  return `${one.state} since ${one.since === null ? "its first call" : clock(one.since)}, ${calls}`;
}
