// @ts-check
// Messages of a conversation, as a request holds them. Pure.

import { parsed } from "./sent_parts.js";

/** @typedef {import("../workflows/workflow_types.js").Message} Message */

export const ROLES = ["system", "user", "assistant"];

/** After the user speaks the assistant, and the other way round. @param {Message[]} messages */
export const nextRole = (messages) => (messages.at(-1)?.role === "user" ? "assistant" : "user");

/**
 * The messages of a request that a client sent, whatever its protocol; texts alone.
 * @param {string} body @returns {Message[]} empty when it holds none
 */
export function messagesIn(body) {
  const { messages, system, prompt, input } = parsed(body) ?? {};
  const listed = [messages, input].find(Array.isArray);
  const said = listed
    ? listed.filter((one) => ROLES.includes(one?.role)).map(({ role, content }) => ({ role, content: textOf(content) }))
    : [prompt, input].filter((text) => typeof text === "string").map((content) => ({ role: "user", content }));
  return system ? [{ role: "system", content: textOf(system) }, ...said] : said;
}

/**
 * The messages of a request as a file for `--messages`: as they are, where they are a list and no prompt stands
 * beside it; else texts alone.
 * @param {string} body @returns {unknown[]} empty when it holds none
 */
export function conversationIn(body) {
  const { messages, system } = parsed(body) ?? {};
  return Array.isArray(messages) && !system ? messages : messagesIn(body);
}

/** @param {unknown} content a text, or parts of which some have one */
function textOf(content) {
  if (typeof content === "string") return content;
  return Array.isArray(content)
    ? content
        .map((part) => part?.text ?? "")
        .filter(Boolean)
        .join("\n")
    : "";
}
