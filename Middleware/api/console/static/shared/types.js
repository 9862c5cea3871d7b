// @ts-check
// Shapes that cross files: what the server tells (spec console.md 6), and where the page is.

/** @typedef {{page: string, parts: string[], query: URLSearchParams}} Place `parts`: decoded, behind the page's name */

/**
 * @typedef {{version: string, mode: string, rights: string[], pid: number, processes: number, started: number, users:
 *   string[],
 *   gate: {level: string, limit: number, running: number, waiting: number}, kept: {runs: number, bytes: number, limit:
 *   number, odd: number, pinned: number}, failing: number, seq: number}} State
 *   `failing`: how many endpoints */

/** @typedef {"queue" | "other" | "load" | "first" | "think" | "say" | "after" | "prefill"} Part */

/**
 * @typedef {{id: string, at: number, seq: number, user: string, key: string | null, workflow: string, front: string,
 *   path: string, stream: boolean,
 *   task: string | null, private: boolean, state: string, where: string | null, status: number | null, shape: [Part,
 *   number][],
 *   first_s: number | null, took_s: number, tokens: number | null, about: boolean, rate: number | null, finish: string
 *   | null,
 *   error: string | null, held: number | null, stood_out: number, name: string | null, said: string | null, client_s:
 *   number, after_s: number | null,
 *   level: "bad" | "trouble" | null, short: string | null, ahead: {place: number, holders: string[]} | null,
 *   again_of: {id: string, wall: number} | null, kept: boolean, heard?:
 *   number}} Summary
 *   `name`: the model name that was asked; `said`: the beginning of what the user wrote; `client_s`: until the client
 *   had its answer, `after_s`: behind it;
 *   `kept`: until the restart;
 *   `level`, `short`: of what stood out; `heard`: when it came, by the page's own clock in ms; `held`: share of its
 *   prompts that the servers had */

/** @typedef {{ref: string, chars: number, left_out: number, start: string, sum: string}} Ref */

/** @typedef {{ref: string, head: string, tail: string, chars: number, left_out: number, json: boolean}} Text */

/** @typedef {{prompt_tokens?: number, completion_tokens?: number, [name: string]: unknown}} Usage */

/** @typedef {{tokens: number, about: boolean, held: number | null, held_about: boolean, compared: boolean,
 *   leaves: {message: number, character: number, where: string} | null}} PromptSize */

/**
 * @typedef {{message: number, character: number, exact: boolean, before: string, differs: string, after: string, was:
 *   string,
 *   placeholder: string | null}} LeftPlace */

/** What the server at an address has loaded.
 * @typedef {{url: string, server: string, models: string[], slots: {busy: number, total: number} | null}} LoadedPlace
 *   */

/** @typedef {{amounts: {[currency: string]: number}, about: boolean}} Costs */

/**
 * @typedef {{k: number, kind: string, endpoint: string | null, backend: string | null, model: string | null, url:
 *   string | null,
 *   begun_s: number | null, sent_s: number | null, first_s: number | null, ended_s: number | null, tries: number,
 *   status: number | null,
 *   outcome: string | null, finish_reason: string | null, usage: Usage | null, cost: Costs | null, prompt: PromptSize |
 *   null, load_s: number | null, prompt_s: number | null, backup_of: string | null, chosen: boolean, error: string |
 *   null,
 *   body: Ref | null, raw: Ref | null, cleaned: Ref | null, thoughts: Ref[], has_cleaning: boolean}} Call */

/**
 * @typedef {{i: number, parent: number | null, depth: number, label: string, workflow: string, number: number, of:
 *   number, title: string,
 *   type: string, remembers: boolean,
 *   group: string | null, answers: boolean, after: boolean, state: string, begun_s: number | null,
 *   ended_s: number | null,
 *   endpoint: string | null, preset: string | null, tokens: number | null, dropped: number, warnings: string[], error:
 *   string | null,
 *   fields: Ref | null, output: Ref | null, thoughts: Ref[], waits: Wait[], calls: Call[]}} Node */

/** @typedef {{for: string, begun_s: number, ended_s: number | null}} Wait a call of a node waits before it is made */

/** @typedef {{rule: string, level: "bad" | "note", text: string, i: number | null}} StoodOut */

/** What calls of models used. @typedef {{prompt_tokens: number | null, completion_tokens: number | null,
 *   calls: number | null}} Used */

/**
 * @typedef {Omit<Summary, "stood_out"> & {model: string, api_type: string, cancelled_by: string | null, usage: Usage |
 *   null,
 *   all_nodes: Used & {to_answer: Used, after: Used}, cost: Costs | null,
 *   asked: Ref | null, answer: Ref | null, texts: boolean,
 *   stood_out: StoodOut[], nodes: Node[]}} Run */

export {};
