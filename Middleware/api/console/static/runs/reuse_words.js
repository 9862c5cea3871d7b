// @ts-check
// How much of a prompt its server had been sent before, in words. Pure.
import { number, seconds } from "../shared/words.js";

/** @typedef {import("../shared/types.js").PromptSize} PromptSize */

/** `12,400 tokens: 11,800 held, 600 new`; `about` before what nobody counted. @param {PromptSize} prompt */
export function reuseWords({ tokens, about, held, held_about: heldAbout }) {
  const size = `${about ? "about " : ""}${number(tokens)} tokens`;
  if (held === null) return size;
  return `${size}: ${heldAbout && !about ? "about " : ""}${number(held)} held, ${number(tokens - held)} new`;
}

/** `Read in 1.2 s.`, "" where the backend does not say. @param {number | null} took in seconds */
export const readingWords = (took) => (took === null ? "" : `Read in ${seconds(took)}.`);

/**
 * Where a prompt left the one before, "" where it left none.
 * @param {PromptSize} prompt
 * @param {string | null} [placeholder]
 */
export function leftWords({ leaves, compared }, placeholder) {
  if (!compared) return "This is the first prompt that this server was sent.";
  return leaves
    ? `It leaves the one before ${leaves.where}${placeholder ? `, at ${placeholder}` : ""}.`
    : "The one before began in the same way.";
}
