// @ts-check
// The workflows that a node may run: pills with label and name below its card, and a child's own picture in a frame.
import { html, useState } from "../vendor/preact.js";
import { pathInAddress } from "../shared/address.js";
import { useAsked } from "../shared/asked.js";
import { ask, state } from "../shared/server.js";
import { addressOf, below } from "./workflow_place.js";

/**
 * @typedef {import("./workflow_types.js").GraphNode} GraphNode
 * @typedef {import("./workflow_types.js").Child} Child
 * @typedef {import("./workflow_place.js").Place} Place
 */

/** Levels of pictures within pictures. */
const DEEPEST = 3;

/**
 * `Picture`: what shows a child's graph.
 * @param {{node: GraphNode, place: Place, level: number, Picture: unknown}} props
 */
export function Children({ node, place, level, Picture }) {
  const [open, setOpen] = useState(/** @type {string | null} */ (null));
  if (!node.children.length) return null;
  const unfolded = node.children.find((child) => child.label === open && child.path);
  return html`<ul class="fork" role="list" aria-label=${`workflows of node ${node.n}`}>
      ${node.children.map(
        (child) => html`<${Pill} key=${child.label} child=${child} place=${place}
        mayMake=${level === 1} mayOpen=${level < DEEPEST}
        open=${child.label === open} turn=${() => setOpen(child.label === open ? null : child.label)} />`,
      )}
    </ul>
    ${unfolded && html`<${Unfolded} key=${unfolded.path} child=${unfolded} place=${place} level=${level + 1}
      Picture=${Picture} />`}`;
}

/**
 * @param {{child: Child, place: Place, mayMake: boolean, mayOpen: boolean, open: boolean, turn: () => void}} props
 */
function Pill({ child, place, mayMake, mayOpen, open, turn }) {
  const name = child.text ? "own text" : (child.workflow ?? "unknown");
  return html`<li class="leaf">
    <span>${child.label && html`<small>${child.label}</small>`}
      ${child.path ? html`<a href=${addressOf(below(place, child.path))}>${name}</a>` : html`<span class=${child.text
        ? "" : "dim"}>${name}</span>`}</span>
    ${child.path && mayOpen && html`<button type="button" class="unfold" aria-expanded=${open} aria-label=${`${open
      ? "fold" : "open here"}: ${name}`} onClick=${turn}>${open ? "fold" : "open here"}</button>`}
    ${mayMake && !child.path && !child.text && child.workflow && html`<${Make} name=${child.workflow}
      place=${place} />`}
  </li>`;
}

/**
 * Behind a name that leads nowhere: makes the file in the folder of this one, and opens it.
 * @param {{name: string, place: Place}} props
 */
function Make({ name, place }) {
  const [failed, setFailed] = useState("");
  if (!(state.value?.rights ?? []).includes("save")) return null;
  const path = `${place.path.split("/").slice(0, -1).join("/")}/${name}.json`;
  const make = () =>
    ask("workflows", { method: "POST", body: { path, template: "chat" } }).then(
      () => location.assign(addressOf(below(place, path))),
      (/** @type {Error} */ error) => setFailed(error.message),
    );
  return html`<button type="button" class="unfold" aria-label=${`Make ${name}`} onClick=${make}>Make</button>
    ${failed && html`<span class="bad" role="alert">${failed}</span>`}`;
}

/** A child's own picture. @param {{child: Child, place: Place, level: number, Picture: unknown}} props */
function Unfolded({ child, place, level, Picture }) {
  const path = /** @type {string} */ (child.path);
  const { data: file, error } = useAsked(`workflows/${pathInAddress(path)}`, 0, place.user ? { user: place.user } : {});
  const there = below(place, path);
  const choose = (/** @type {number} */ n) => location.assign(addressOf({ ...there, node: n }));
  return html`<section class="frame" aria-label=${`${child.workflow}, opened here`}>
    <span class="cap">${child.workflow}</span>
    ${error && html`<p class="bad">${error.message}</p>`}
    ${
      file &&
      (file.graph
        ? html`<${Picture} graph=${file.graph} problems=${file.problems} times=${null} chosen=${null} choose=${choose}
          place=${there} level=${level} label=${`nodes of ${child.workflow}`} />`
        : html`<p class="dim">It has no nodes to show.</p>`)
    }
  </section>`;
}
