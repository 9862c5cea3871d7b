// @ts-check
// What a body that was sent to a model holds: messages, tools, samplers, pictures; and in words how much of the prompt
// its server had been sent before. Pure.
import { number, seconds } from "../shared/words.js";

/**
 * @typedef {{type: string, bytes: number | null, src: string | null}} Picture `src`: a small one that came with the
 *   body
 * @typedef {{role: string, text: string, pictures: Picture[], calls: string}} Message `calls`: tool calls as JSON
 * @typedef {{messages: Message[], prompt: string | null, tools: string[], samplers: [string, string][]}} Sent
 */

const LARGEST_SHOWN = 200_000;
const NO_SAMPLERS = new Set(["messages", "prompt", "system", "tools", "functions"]);

/** null for a body that is no request of a model. @param {string} text @returns {Sent | null} */
export function sentIn(text) {
  const body = parsed(text);
  if (!body || typeof body !== "object" || Array.isArray(body)) return null;
  const { messages, prompt, system, tools } = body;
  if (!Array.isArray(messages) && typeof prompt !== "string") return null;
  return {
    messages: [...(system ? [{ role: "system", content: system }] : []), ...listOf(messages)].map(messageOf),
    prompt: typeof prompt === "string" ? prompt : null,
    tools: listOf(tools).map((tool) => String(tool?.function?.name ?? tool?.name ?? "?")),
    samplers: Object.entries(body)
      .filter(([name]) => !NO_SAMPLERS.has(name))
      .map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]),
  };
}

/**
 * The box in which a prompt leaves the one before: the place of a message, or which other one; null: none.
 * @param {Sent} sent @param {{message: number} | null} [leaves] `message` counts from 1, tools are 0
 */
export function boxLeft({ messages, prompt }, leaves) {
  if (!leaves) return null;
  if (leaves.message === 0) return "tools";
  if (leaves.message <= messages.length) return leaves.message - 1;
  return prompt === null ? null : "prompt";
}

/** @param {any} value @returns {any[]} */
const listOf = (value) => (Array.isArray(value) ? value : []);

/** @param {any} message @returns {Message} */
function messageOf(message) {
  const { role = "?", content = "", images, tool_calls: calls, name } = message ?? {};
  const parts = Array.isArray(content) ? content : [content];
  const texts = parts.map(partText).filter((text) => text !== "");
  const pictures = [...parts.map(pictureOf), ...listOf(images).map((data) => embedded(String(data)))].filter(
    (one) => one !== null,
  );
  return {
    role: name ? `${role}, ${name}` : String(role),
    text: texts.join("\n"),
    pictures,
    calls: listOf(calls).length ? JSON.stringify(calls, null, 2) : "",
  };
}

/** @param {any} part */
function partText(part) {
  if (part === null || part === undefined) return "";
  if (typeof part === "string") return part;
  if (typeof part.text === "string") return part.text;
  return pictureOf(part) ? "" : JSON.stringify(part, null, 2);
}

/** @param {any} part @returns {Picture | null} */
function pictureOf(part) {
  const url = part?.image_url?.url ?? (typeof part?.image_url === "string" ? part.image_url : undefined);
  if (typeof url === "string") return fromAddress(url);
  const source = part?.type === "image" && part.source;
  if (!source) return null;
  return fromAddress(source.type === "base64" ? `data:${source.media_type};base64,${source.data}` : "");
}

/** @param {string} url @returns {Picture} */
function fromAddress(url) {
  const [, type, data] = /^data:([\w.+/-]*)(?:;[\w=-]+)*,(.*)$/s.exec(url) ?? [];
  if (data === undefined) return { type: "picture by address", bytes: null, src: null };
  const isPicture = /^image\/(png|jpeg|gif|webp|avif|bmp)$/.test(type);
  return {
    type: type || "data",
    bytes: Math.floor((data.length * 3) / 4),
    src: isPicture && url.length < LARGEST_SHOWN ? url : null,
  };
}

/** Ollama's pictures are base64 alone. @param {string} data */
function embedded(data) {
  const kinds = { "/9j/": "image/jpeg", iVBOR: "image/png", R0lGOD: "image/gif", UklGR: "image/webp" };
  const [, type = "picture"] = Object.entries(kinds).find(([start]) => data.startsWith(start)) ?? [];
  return fromAddress(`data:${type};base64,${data}`);
}

/** The value, or undefined. @param {string} text @returns {any} */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

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

// --- where a text that was sent repeats what a memory node gave ---

/** @typedef {{whose: string, text: string}} Remembered what a node gave, and its name */
/** @typedef {{text: string, whose: string}} Piece `whose`: "" where nobody gave it */

/** A shorter output says nothing. */
const WHOLE_FROM = 40;
/** Of an output that is not there whole, so much must be. */
const STRETCH = 200;
/** Every stretch holds one of the pieces of this length that begin at its multiples. */
const STEP = STRETCH / 2;

/**
 * The text in pieces, those of memory nodes apart; of each stretch the first place counts.
 * @param {string} text @param {Remembered[]} memories @returns {Piece[]}
 */
export function piecesOf(text, memories) {
  const spans = memories.flatMap(({ whose, text: given }) =>
    stretches(text, given.trim()).map((span) => ({ ...span, whose })),
  );
  spans.sort((a, b) => a.from - b.from || b.to - a.to);
  const pieces = /** @type {Piece[]} */ ([]);
  let at = 0;
  for (const { from, to, whose } of spans) {
    if (from < at) continue;
    if (from > at) pieces.push({ text: text.slice(at, from), whose: "" });
    pieces.push({ text: text.slice(from, to), whose });
    at = to;
  }
  if (at < text.length || !pieces.length) pieces.push({ text: text.slice(at), whose: "" });
  return pieces;
}

/** @param {string} text @param {string} given @returns {{from: number, to: number}[]} */
function stretches(text, given) {
  if (given.length < WHOLE_FROM) return [];
  const whole = text.indexOf(given);
  if (whole >= 0) return [{ from: whole, to: whole + given.length }];
  const found = [];
  for (let at = 0; at + STEP <= given.length; at += STEP) {
    const place = text.indexOf(given.slice(at, at + STEP));
    if (place < 0) continue;
    const before = sameBefore(text, place, given, at);
    const after = sameAfter(text, place + STEP, given, at + STEP);
    const to = place + STEP + after;
    if (to - (place - before) >= STRETCH) found.push({ from: place - before, to });
    at += Math.floor(after / STEP) * STEP;
  }
  return found;
}

/**
 * How many characters before two places are the same.
 * @param {string} a @param {number} i @param {string} b @param {number} j
 */
function sameBefore(a, i, b, j) {
  let count = 0;
  while (count < i && count < j && a[i - count - 1] === b[j - count - 1]) count++;
  return count;
}

/**
 * How many characters from two places on are the same.
 * @param {string} a @param {number} i @param {string} b @param {number} j
 */
function sameAfter(a, i, b, j) {
  let count = 0;
  while (i + count < a.length && j + count < b.length && a[i + count] === b[j + count]) count++;
  return count;
}
