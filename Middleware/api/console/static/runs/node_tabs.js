// @ts-check
// What is known of the chosen node: what was sent, what came, what it gave, how it is written, the facts.
import { html } from "../vendor/preact.js";
import { AskLink, FromHere } from "../again/deeds.js";
import { addressOf } from "../shared/address.js";
import { Came } from "./came.js";
import { hueOf } from "../shared/names.js";
import { Facts, Mark, Tabs } from "../shared/parts.js";
import { Sent } from "./sent.js";
import { Box, TextBox } from "./texts.js";
import { costWords, counted, listed, number, seconds, stateWords } from "../shared/words.js";

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
