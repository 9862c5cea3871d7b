// @ts-check
// What the page asks the server, and what the server tells by itself.
import { batch, signal } from "../vendor/preact.js";
import { keyNow, keyTurn, keyWanted } from "./key.js";

/** @typedef {import("./types.js").State} State */
/** @typedef {import("./types.js").Summary} Summary */

export const state = signal(/** @type {State | null} */ (null));
/** Runs that changed since the page is open, by id. */
export const runs = signal(/** @type {Map<string, Summary>} */ (new Map()));
/** Ids of runs that the server forgot. */
export const gone = signal(/** @type {ReadonlySet<string>} */ (new Set()));
/** Since when nothing came (Unix seconds), null while all is well. */
export const lost = signal(/** @type {number | null} */ (null));
/** Why the server tells nothing by itself although it answers. */
export const refusal = signal("");
/** As many pages as the server tells by itself are open already: this one asks, each POLL_S. */
export const polling = signal(false);
/** Counts the starts of the server that this page saw: what was asked before is of another. */
export const era = signal(0);
/** The server is another version than the page. */
export const updated = signal(false);

/** Whether the reader has this right; while that is not known yet, as if. @param {"look" | "act" | "save"} right */
export const hasRight = (right) => state.value?.rights.includes(right) ?? true;

/** Why nothing happens where the right to act is missing. @param {string} what `Probing`: what one wanted */
export const needsKey = (what) => `${what} needs the console key, or a browser on the server's machine.`;

/** What answers 401 for want of a client's key. */
const TRIES = new Set(["try", "again", "ask"]);
const WAITS_S = [1, 2, 5];
const LONGEST_WAIT_S = 10;
export const POLL_S = 3;
/** What one answer of `runs` holds at most: all that the server keeps. */
const MOST_RUNS = "200";
const SILENCE_MS = 40_000;
const HIDDEN_MS = 10_000;

export class ServerError extends Error {
  /** @param {number} status 0: no answer @param {string} message @param {Record<string, unknown>} [data] */
  constructor(status, message, data = {}) {
    super(message);
    this.status = status;
    this.data = data;
  }
}

/** A key for a header, which takes no sign beyond Latin-1: its UTF-8 bytes, each as a sign. @param {string} key */
const inBytes = (key) => String.fromCharCode(...new TextEncoder().encode(key));

/**
 * @typedef {{query?: Record<string, string> | URLSearchParams, method?: string, body?: unknown, file?: Blob,
 *   signal?: AbortSignal, key?: string}} Asked
 * `file`: a zip file in place of a JSON body; `key`: one that is tried, in place of the kept one
 */

/**
 * The answer to a request below `api/`, as it begins. Throws ServerError.
 * @param {string} path
 * @param {Asked} [asked]
 */
export async function opened(path, { query, method = "GET", body, file, signal: stop, key: tried } = {}) {
  const headers = new Headers({ "X-Headrace-Console": "1" });
  const key = tried ?? keyNow();
  if (key) headers.set("Authorization", `Bearer ${inBytes(key)}`);
  if (body || file) headers.set("Content-Type", file ? "application/zip" : "application/json");
  const response = await fetch(`api/${path}?${new URLSearchParams(query)}`, {
    method,
    headers,
    body: file ?? JSON.stringify(body),
    signal: stop,
    cache: "no-store",
  }).catch(broken(0, "The server is not responding."));
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  const sentence = typeof told.error === "string" ? told.error : `the server answered ${response.status}`;
  if (response.status === 401 && !TRIES.has(path) && key === keyNow()) keyWanted.value = key ? "wrong" : "missing";
  throw new ServerError(response.status, sentence, told);
}

/** The JSON of an answer. Throws ServerError. @param {string} path @param {Asked} [asked] @returns {Promise<any>} */
export async function ask(path, asked) {
  const response = await opened(path, asked);
  return response.json().catch(broken(response.status, "The answer broke off."));
}

/**
 * What is thrown in place of the browser's error, unless the page itself gave up.
 * @param {number} status
 * @param {string} sentence
 */
const broken = (status, sentence) => (/** @type {Error} */ error) => {
  throw error.name === "AbortError" ? error : new ServerError(status, sentence);
};

/** The events of a stream that is read in pieces: name, data and the last id. */
export function eventReader() {
  let rest = "";
  return (/** @type {string} */ piece) => {
    const blocks = (rest + piece).split(/\r?\n\r?\n/);
    rest = blocks.pop() ?? "";
    return blocks.map((block) => {
      const event = { name: "message", data: "", id: "" };
      for (const line of block.split(/\r?\n/)) {
        const [, field, value] = /^(\w*):? ?(.*)$/s.exec(line) ?? [];
        if (field === "event") event.name = value;
        else if (field === "data") event.data += value;
        else if (field === "id") event.id = value;
      }
      return event;
    });
  };
}

/**
 * Reads an answer that streams to its end.
 * @param {Response} response @param {(data: string) => void} tell
 */
export async function readEvents(response, tell) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  const events = eventReader();
  for (let part = await reader.read(); !part.done; part = await reader.read())
    for (const { data } of events(decoder.decode(part.value, { stream: true }))) tell(data);
}

/**
 * Puts what an answer of `runs` holds beside what the events told; the newer one stays.
 * @param {Summary[]} summaries
 */
export function remember(summaries) {
  const known = new Map(runs.value);
  const heard = performance.now();
  for (const one of summaries) {
    const there = known.get(one.id);
    if (!there || there.seq <= one.seq) known.set(one.id, { ...one, heard });
  }
  runs.value = known;
}

/** Keeps the events coming from now on. */
export function listen() {
  let after = 0;
  let failures = 0;
  let lastHeard = Date.now() / 1000;
  let stop = new AbortController();
  let clock = 0;
  let awake = true;

  /** @param {State} told */
  function meet(told) {
    const before = state.value;
    if (before && (before.started !== told.started || before.pid !== told.pid)) {
      after = 0;
      batch(() => {
        runs.value = new Map();
        gone.value = new Set();
        era.value += 1;
      });
    } else if (!before) after = told.seq;
    learn(told);
  }

  /** @param {AbortSignal} mine */
  async function follow(mine) {
    meet(await ask("state", { signal: mine }));
    const response = await opened("events", { query: { after: String(after) }, signal: mine });
    wellAgain(false);
    const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
    const decoder = new TextDecoder();
    const events = eventReader();
    for (;;) {
      const silence = setTimeout(() => reader.cancel(), SILENCE_MS);
      const part = await reader.read().finally(() => clearTimeout(silence));
      if (part.done) return;
      lastHeard = Date.now() / 1000;
      const told = events(decoder.decode(part.value, { stream: true }));
      for (const { id } of told) if (Number(id)) after = Math.max(after, Number(id));
      batch(() => take(told));
    }
  }

  /** @param {boolean} asks */
  function wellAgain(asks) {
    failures = 0;
    lastHeard = Date.now() / 1000;
    batch(() => {
      lost.value = null;
      refusal.value = "";
      polling.value = asks;
    });
  }

  /** What the events would have told, asked for. @param {AbortSignal} mine */
  async function poll(mine) {
    const told = await ask("runs", { query: { limit: MOST_RUNS }, signal: mine });
    const there = new Set(told.runs.map((/** @type {Summary} */ run) => run.id));
    batch(() => {
      remember(told.runs);
      if (!told.next) forget([...runs.value.keys()].filter((id) => !there.has(id)));
      wellAgain(true);
    });
    clock = setTimeout(turn, 1000 * POLL_S);
  }

  async function turn() {
    const mine = (stop = new AbortController()).signal;
    clearTimeout(clock);
    try {
      const isFull = await follow(mine).catch((error) =>
        error instanceof ServerError && error.status === 503 ? true : Promise.reject(error),
      );
      if (mine.aborted) return;
      if (isFull) await poll(mine);
      else clock = setTimeout(turn, 200);
    } catch (error) {
      if (mine.aborted || (error instanceof ServerError && error.status === 401)) return;
      const answers = error instanceof ServerError && error.status > 0;
      batch(() => {
        refusal.value = answers ? /** @type {Error} */ (error).message : "";
        lost.value = answers ? null : (lost.value ?? lastHeard);
      });
      clock = setTimeout(turn, 1000 * (answers ? LONGEST_WAIT_S : (WAITS_S[failures++] ?? LONGEST_WAIT_S)));
    }
  }

  function rest() {
    awake = false;
    clearTimeout(clock);
    stop.abort();
  }

  let hiding = 0;
  function looked() {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(rest, HIDDEN_MS);
    else if (!awake) {
      awake = true;
      turn();
    }
  }
  document.addEventListener("visibilitychange", looked);
  looked();
  keyTurn.subscribe(() => {
    stop.abort();
    turn();
  });
}

/** @param {State} told */
function learn(told) {
  if (state.value && state.value.version !== told.version) updated.value = true;
  state.value = told;
}

/** @param {{name: string, data: string}[]} events */
function take(events) {
  const changed = [];
  for (const { name, data } of events) {
    if (!data) continue;
    const told = JSON.parse(data);
    if (name === "run") changed.push(told);
    else if (name === "state") learn(told);
    else if (name === "gone") forget(told);
  }
  if (changed.length) remember(changed);
}

/** @param {string[]} ids of runs that the server keeps no more */
function forget(ids) {
  if (!ids.length) return;
  gone.value = new Set([...gone.value, ...ids]);
  runs.value = new Map([...runs.value].filter(([id]) => !ids.includes(id)));
}
