// @ts-check
// One node of the picture: number, title, time, type, endpoint, whom it uses, and its problems in words.
import { html } from "../vendor/preact.js";
import { shownName } from "./lanes.js";
import { seconds } from "../shared/words.js";

/**
 * @typedef {import("./workflow_types.js").GraphNode} GraphNode
 * @typedef {import("./workflow_types.js").Problem} Problem
 */

const SHOWN_PROBLEMS = 3;

/**
 * @param {{node: GraphNode, problems: Problem[], time: {s: number | null, state: string} | null, hue: Map<string,
 *   number>, chosen: boolean,
 *   near: boolean, tabbable: boolean, choose: () => void, hover: (n: number | null) => void}} props
 */
export function Card({ node, problems, time, hue, chosen, near, tabbable, choose, hover }) {
  const name = node.endpoint && shownName(node.endpoint);
  const colour = name ? { "--ec": `var(--e${hue.get(name)})` } : {};
  const used = [...new Set(node.uses.map(({ n }) => n))].sort((a, b) => a - b);
  return html`<button type="button" class=${near ? "node near" : "node"} data-n=${node.n} style=${colour}
    tabIndex=${tabbable ? 0 : -1}
      aria-current=${chosen || null} onClick=${choose}
      onMouseEnter=${() => hover(node.n)} onMouseLeave=${() => hover(null)} onFocus=${() => hover(node.n)}
        onBlur=${() => hover(null)}>
    <span class="nhead"><${Unseen}>node <//><span class="n">${node.n}</span><${Unseen}>, <//><span class="ntitle">
    ${node.title}</span>
      ${node.answers && html`<${Unseen}>, <//><span class="flag">answers</span>`}${node.after &&
        html`<${Unseen}>, after the answer<//>`}
      ${time && html`<${Unseen}>, <//><span class="tm">${timeOf(time)}</span>`}</span>
    <span class="ty"><${Unseen}>, <//><span>${node.type}${!node.known && " (runs as Standard)"}</span>
    ${name && html`<${Unseen}>, endpoint <//><span class="ep">${name}</span>`}
      ${used.length > 0 && html`<${Unseen}>, <//><span class="uses">uses ${used.join(", ")}</span>`}</span>
    ${node.alone && html`<span class="why"><${Unseen}>, <//>not in parallel: ${node.alone}</span>`}
    ${problems.slice(0, SHOWN_PROBLEMS).map(({ level, message }) => html`<span class=${`prob ${level}`}>
    <${Unseen}>, ${level}: <//>${message}</span>`)}
    ${problems.length > SHOWN_PROBLEMS && html`<span class="why">and ${problems.length - SHOWN_PROBLEMS} more</span>`}
  </button>`;
}

/** Words that a screen reader hears and nobody sees. @param {{children: unknown}} props */
const Unseen = ({ children }) => html`<span class="unseen">${children}</span>`;

/** @param {{s: number | null, state: string}} time */
const timeOf = ({ s, state }) =>
  [state === "done" ? "" : state.replace(/_/g, " "), s === null ? "" : seconds(s)].filter(Boolean).join(" ");
