// @ts-check
// What is known of the chosen row: of a node what was sent, what came, what it gave, how it is written, the facts; of
// the first row and the one where the client has its answer what it asked, and what it got, live while that goes out.
import { html, useEffect, useState } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { Came } from "./came.js";
import { AskLink, FromHere } from "../again/deeds.js";
import { hueOf } from "../shared/names.js";
import { Facts, Mark, Missing, Tabs } from "../shared/parts.js";
import { Parts, Sent, useSent } from "./sent.js";
import { Box, TextBox, Whole } from "./texts.js";
import { costWords, counted, isActive, listed, number, seconds, stateWords } from "../shared/words.js";

/**
 * @typedef {import("../shared/types.js").Run} Run
 * @typedef {import("../shared/types.js").Node} Node
 * @typedef {import("../shared/types.js").Call} Call
 */

const TABS = [
  ["sent", "Sent"],
  ["came", "Came"],
  ["output", "Output"],
  ["fields", "Fields"],
  ["facts", "Facts"],
].map(([name, title]) => ({ name, title }));
const LARGE = /conditional|categor|rout/i;

/** @param {{run: Run, node: Node, k: number, tab: string, choose: (tab: string) => void}} props */
export function NodeTabs({ run, node, k, tab, choose }) {
  const call = node.calls[k] ?? node.calls[0] ?? null;
  const none = missing(run, node);
  const name = node.title || node.type;
  const where = call && `call ${call.k + 1} of ${node.calls.length}`;
  const shown = TABS.some((one) => one.name === tab) ? tab : firstTab(node, call);
  return html`<div class="nodehead"><h2>${node.number} ${name}</h2><span class="dim">${node.title && node.type}</span>
    ${
      node.endpoint &&
      html`<a class=${`chip c${hueOf(node.endpoint)}`}
      href=${addressOf("endpoints", [], { of: `${run.user}/${node.endpoint}` })}
      title=${`Endpoint ${node.endpoint}`}>${node.endpoint}</a>`
    }<${FromHere} run=${run} node=${node} />
      <${AskLink} run=${run} node=${node} call=${call} /></div>
  <${Tabs} label=${`Node ${node.number}, ${name}`} tabs=${TABS} chosen=${shown} choose=${choose}
    right=${where}>
    ${shown === "sent" && html`<${Sent} key=${`${node.i}.${k}`} run=${run} node=${node} call=${call} none=${none} />`}
    ${shown === "came" && html`<${Came} key=${`${node.i}.${k}`} run=${run} node=${node} call=${call} none=${none} />`}
    ${
      shown === "output" &&
      html`<${Box} title=${`agent${node.number}Output`} right=${
        node.output && counted(node.output.chars, "character")
      }><div class="pad0"><${TextBox} id=${run.id} reference=${node.output}
        none=${none} large=${LARGE.test(node.type)} /></div><//>`
    }
    ${
      shown === "fields" &&
      html`<p><${FileOf} run=${run} node=${node} />, node ${node.number}</p><div class="msg">
    <${TextBox} id=${run.id} reference=${node.fields} none=${none} /></div>`
    }
    ${shown === "facts" && html`<${AllFacts} run=${run} node=${node} call=${call} />`}<//>`;
}

/**
 * The workflow file that the node stands in; "" for what is in none: a model that was asked by itself, a choice by
 * meaning.
 * @param {Node | null | undefined} node
 */
export const fileOf = (node) => /^Workflows\/.*\.json$/.exec(node?.workflow ?? "")?.[0] ?? "";

/** @param {{run: Run, node: Node}} props */
function FileOf({ run, node }) {
  const file = fileOf(node);
  return file
    ? html`<a href=${addressOf("workflows", file.split("/"), { user: run.user, node: node.number })}>${file}</a>`
    : html`<span>${node.workflow}</span>`;
}

/** @param {Node} node @param {Call | null} call */
const firstTab = (node, call) => (call ? "came" : node.output ? "output" : "facts");

export const PRIVATE = "The user's settings keep texts private; times and counts only.";

/** Why a text is not there. @param {Run} run @param {Node} node */
function missing(run, node) {
  if (run.private) return PRIVATE;
  if (!run.texts) return "The texts of this run are not kept: newer runs needed the memory.";
  if (node.state === "not_run") return "This node did not run.";
  return node.ended_s === null ? "There is nothing here yet." : "There is none.";
}

/** @param {{run: Run, node: Node, call: Call | null}} props */
function AllFacts({ run, node, call }) {
  const { begun_s: begun, ended_s: ended } = node;
  const facts = [
    [
      "state",
      html`<span class=${`state ${node.state}`}><${Mark} state=${node.state} plain />${stateWords(node.state)}</span>`,
    ],
    ["workflow", html`<${FileOf} run=${run} node=${node} />, node ${node.number} of ${node.of}`],
    ["type", node.type],
    ["group", node.group],
    ["branch", node.label],
    [
      "time",
      begun !== null &&
        (ended === null
          ? `${seconds(begun)} to now`
          : `${seconds(begun)} to ${seconds(ended)}, ${seconds(ended - begun)}`),
    ],
    ["endpoint", node.endpoint],
    ["preset", node.preset],
    ["tokens", told(node.tokens, number)],
    ["left out", node.dropped > 0 && `${number(node.dropped)} older messages`],
    ["error", node.error],
    ...node.warnings.map((warning) => ["warning", warning]),
  ];
  return html`<${Facts} facts=${facts} />${
    call &&
    html`<h2>Call ${call.k + 1} of ${node.calls.length}</h2><${Facts}
    facts=${callFacts(call)} />`
  }`;
}

/** @param {Call} call @returns {[string, unknown][]} */
function callFacts(call) {
  const usage = Object.entries(call.usage ?? {}).map(
    ([name, value]) => `${name} ${typeof value === "number" ? number(value) : JSON.stringify(value)}`,
  );
  const { sent_s: sent, first_s: first } = call;
  return [
    ["kind", call.kind],
    ["endpoint", call.endpoint],
    ["address", call.url && html`<code>${call.url}</code>`],
    ["backend", call.backend],
    ["model", call.model],
    ["sent", told(sent, seconds)],
    ["first word", first !== null && sent !== null && `${seconds(first)}, ${seconds(first - sent)} after it was sent`],
    ["model loaded", call.load_s !== null && `in ${seconds(call.load_s)}`],
    ["prompt read", call.prompt_s !== null && `in ${seconds(call.prompt_s)}`],
    ["ended", told(call.ended_s, seconds)],
    ["tries", number(call.tries)],
    ["status", call.status],
    ["outcome", call.outcome],
    ["finish reason", call.finish_reason],
    ["usage", listed(...usage)],
    ["cost", call.cost && costWords(call.cost)],
    ["backup of", call.backup_of],
    ["chosen", call.chosen && "its answer was taken"],
    ["error", call.error],
  ];
}

/** @param {number | null} value @param {(value: number) => string} words */
const told = (value, words) => value !== null && words(value);

/** @param {{run: Run, none: string}} props `none`: why there is no text */
export function Request({ run, none }) {
  const facts = [
    ["model", run.model],
    ["came by", run.front],
    ["to", html`<code>${run.path}</code>`],
    ["answer", run.front && (run.stream ? "streamed" : "in one piece")],
    ["task", run.task],
  ];
  return html`<${Facts} look="sum" facts=${facts} /><${Body} run=${run} none=${none} />`;
}

/** @param {{run: Run, none: string}} props */
function Body({ run, none }) {
  const { data: text, error, again, sent } = useSent(run.id, run.asked);
  if (!run.asked) return html`<p class="dim">${none}</p>`;
  if (!text) return html`<${Missing} error=${error} again=${again} rows=${4} />`;
  return html`<p class="dim">as the client sent it, ${counted(text.chars, "character")}</p>
    ${sent ? html`<${Parts} sent=${sent} left=${null} />` : html`<div class="msg"><${Whole} text=${text} /></div>`}`;
}

/** @param {{run: Run, none: string, again: () => void}} props `none`: why there is no text */
export function Answer({ run, none, again }) {
  useGrowth(run.state === "answering", again);
  const text = run.answer;
  const node = run.nodes.find(({ answers }) => answers);
  const { raw = null, cleaned = null } = node?.calls.at(-1) ?? {};
  const removed = raw && cleaned ? raw.chars - cleaned.chars : 0;
  const facts = [
    ["ended by", run.finish],
    ["tokens", run.tokens !== null && `${run.about ? "about " : ""}${number(run.tokens)}`],
    ["first token", run.first_s !== null && seconds(run.first_s)],
    ["cost", run.cost && costWords(run.cost)],
    [
      "cleaned away",
      text &&
        run.state === "done" &&
        removed > 0 &&
        html`<a href=${addressOf("runs", [run.id], { node: node?.i ?? 0, tab: "came" })}>${counted(removed,
          "character")}</a>`,
    ],
  ];
  return html`<${Facts} look="sum" facts=${facts} />
    ${run.error && html`<p class="notes bad">${run.error}</p>`}
    ${
      text
        ? html`<${Box} kind="assistant" title=${
            isActive(run) && run.state !== "finishing" ? "The answer so far" : "What the client got"
          } right=${counted(text.chars, "character")}><${TextBox} id=${run.id}
              reference=${text} none="" /><//>`
        : !run.error && html`<p class="dim">${isActive(run) && !run.private ? "There is no text yet." : none}</p>`
    }`;
}

/** While an answer goes out, it is asked for once a second, as long as it is looked at.
 * @param {boolean} grows @param {() => void} again */
function useGrowth(grows, again) {
  const [beat, setBeat] = useState(0);
  useEffect(() => {
    const clock = grows ? setInterval(() => document.hidden || setBeat((was) => was + 1), 1000) : 0;
    return () => clearInterval(clock);
  }, [grows]);
  useEffect(() => {
    if (beat) again();
  }, [beat]);
}
