// @ts-check
// One call of a model as a form edits it: its messages, its samplers, and what of them was changed. Pure.

/**
 * @typedef {{role: string, content?: any, [name: string]: any}} Message as it was sent
 * @typedef {{messages: Message[] | null, prompt: string, samplers: [string, string][]}} Call `samplers`: values as
 *   JSON; of those that a backend takes in `options` the names within
 */

const ASIDE = new Set(
  ("messages prompt system model stream tools tool_choice functions options stream_options response_format " +
    "format").split(" "),
);

/** null: it is no call of a model. @param {string} body @returns {Call | null} */
export function callIn(body) {
  let sent;
  try {
    sent = JSON.parse(body);
  } catch {
    return null;
  }
  if (!sent || typeof sent !== "object" || !(Array.isArray(sent.messages) || typeof sent.prompt === "string"))
    return null;
  const first = typeof sent.system === "string" && sent.system ? [{ role: "system", content: sent.system }] : [];
  return {
    messages: Array.isArray(sent.messages) ? [...first, ...sent.messages] : null,
    prompt: typeof sent.prompt === "string" ? sent.prompt : "",
    samplers: Object.entries({ ...sent, ...sent.options })
      .filter(([name]) => !ASIDE.has(name))
      .map(([name, value]) => [name, JSON.stringify(value)]),
  };
}

/** The text of a message, whose other parts are pictures. @param {Message} message */
export const textOfMessage = ({ content }) =>
  typeof content === "string"
    ? content
    : (Array.isArray(content) ? content : [])
        .filter((part) => typeof part?.text === "string")
        .map(({ text }) => text)
        .join("\n");

/** The message with another text; its other parts stay. @param {Message} message @param {string} text
 * @returns {Message} */
export function withText(message, text) {
  if (!Array.isArray(message.content)) return { ...message, content: text };
  const others = message.content.filter((/** @type {any} */ part) => typeof part?.text !== "string");
  return { ...message, content: [{ type: "text", text }, ...others] };
}

/**
 * What a request says is other than it was; nothing of what was not edited.
 * @param {Call} was @param {{messages: Message[] | null, prompt: string, samplers: [string, string][]}} now
 */
export function editsOf(was, now) {
  const edits = /** @type {Record<string, unknown>} */ ({});
  if (was.messages && JSON.stringify(now.messages) !== JSON.stringify(was.messages)) edits.messages = now.messages;
  if (!was.messages && now.prompt !== was.prompt) edits.prompt = now.prompt;
  const before = new Map(was.samplers);
  const changed = now.samplers.filter(([name, text]) => name && before.get(name) !== text);
  if (changed.length) edits.sampler = Object.fromEntries(changed.map(([name, text]) => [name, valueOf(text)]));
  return edits;
}

/** What is typed as a value: JSON where it is that, nothing takes the sampler away. @param {string} text */
function valueOf(text) {
  if (!text.trim()) return null;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
