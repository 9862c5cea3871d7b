// @ts-check
// Messages of a conversation, as a request holds them. Pure.

/** @typedef {import("./workflow_types.js").Message} Message */

export const ROLES = ["system", "user", "assistant"];

/** After the user speaks the assistant, and the other way round. @param {Message[]} messages */
export const nextRole = (messages) => (messages.at(-1)?.role === "user" ? "assistant" : "user");

/**
 * The messages of a request that a client sent, whatever its protocol; texts alone.
 * @param {string} body @returns {Message[]} empty when it holds none
 */
export function messagesIn(body) {
  try {
    const { messages, system, prompt, input } = JSON.parse(body) ?? {};
    const listed = Array.isArray(messages) ? messages : Array.isArray(input) ? input : null;
    const said = listed
      ? listed.filter((one) => one && ROLES.includes(one.role)).map(({ role, content }) => ({ role, content: textOf(content) }))
      : [prompt, input].filter((text) => typeof text === "string").map((content) => ({ role: "user", content }));
    return system ? [{ role: "system", content: textOf(system) }, ...said] : said;
  } catch {
    return [];
  }
}

/**
 * The messages of a request as a file for `--messages`: as they are, where they are a list and no prompt stands
 * beside it; else texts alone.
 * @param {string} body @returns {unknown[]} empty when it holds none
 */
export function conversationIn(body) {
  try {
    const { messages, system } = JSON.parse(body) ?? {};
    return Array.isArray(messages) && !system ? messages : messagesIn(body);
  } catch {
    return [];
  }
}

/** @param {unknown} content a text, or parts of which some have one */
function textOf(content) {
  if (typeof content === "string") return content;
  return Array.isArray(content) ? content.map((part) => part?.text ?? "").filter(Boolean).join("\n") : "";
}
