// @ts-check
// A page of the docs as elements. Never HTML: what markdown.js does not know is text.
import { html, useState } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { copied } from "../shared/parts.js";

/** @typedef {import("./markdown.js").Block} Block @typedef {import("./markdown.js").Inline} Inline */
/** @typedef {(to: string) => { page: string, at: string } | { outside: string } | null} Leads */

/** @param {{ made: Block[], leads: Leads }} props */
export function Prose({ made, leads }) {
  const tables = made.filter(({ kind }) => kind === "table");
  return made.map(
    (block, at) => html`<${One} key=${at} block=${block} leads=${leads} table=${tables.indexOf(block) + 1} />`,
  );
}

/**
 * @param {{ block: Block, leads: Leads, table: number }} props `table`: which one of the page, as two regions may not
 *   have one name
 */
function One({ block, leads, table }) {
  const inside = (/** @type {Inline[]} */ parts) => html`<${Line} parts=${parts} leads=${leads} />`;
  switch (block.kind) {
    case "heading":
      return html`<${`h${Math.min(block.level, 6)}`} id=${`help-${block.id}`} tabindex="-1">${inside(block.inside)}
        <//>`;
    case "paragraph":
      return html`<p>${inside(block.inside)}</p>`;
    case "quote":
      return html`<blockquote><${Prose} made=${block.inside} leads=${leads} /></blockquote>`;
    case "rule":
      return html`<hr />`;
    case "code":
      return html`<${Code} text=${block.text} />`;
    case "list": {
      const items = block.items.map((item) => html`<li><${Prose} made=${item} leads=${leads} /></li>`);
      return block.start === null ? html`<ul>${items}</ul>` : html`<ol start=${block.start}>${items}</ol>`;
    }
    default:
      return html`<div class="wide" tabindex="0" role="region" aria-label=${`Table ${table}`}><table>
        <thead><tr>${block.head.map((cell) => html`<th scope="col">${inside(cell)}</th>`)}</tr></thead>
        <tbody>${block.rows.map((row) => html`<tr>${row.map((cell) => html`<td>${inside(cell)}</td>`)}</tr>`)}</tbody>
      </table></div>`;
  }
}

/** @param {{ parts: Inline[], leads: Leads }} props */
function Line({ parts, leads }) {
  return parts.map((part) => {
    if (part.kind === "text") return part.text;
    if (part.kind === "picture") return html`<span class="dim">(picture: ${part.text})</span>`;
    if (part.kind === "code") return html`<code>${part.text}</code>`;
    const inside = html`<${Line} parts=${part.inside} leads=${leads} />`;
    if (part.kind !== "link") return html`<${part.kind}>${inside}<//>`;
    const to = leads(part.to);
    if (to === null) return inside;
    if ("outside" in to) return html`<a href=${to.outside} rel="noreferrer" target="_blank">${inside}</a>`;
    return html`<a href=${helpAddress(to.page, to.at)}>${inside}</a>`;
  });
}

/** @param {string} page @param {string} [at] */
export const helpAddress = (page, at) => addressOf("help", page.split("/"), { at });

/** @param {{ text: string }} props */
function Code({ text }) {
  const [told, tell] = useState("Copy");
  const copy = async () => {
    tell((await copied(text)) ? "Copied" : "Not copied");
    setTimeout(() => tell("Copy"), 2000);
  };
  return html`<div class="sample"><pre tabindex="0"><code>${text}</code></pre><button type="button" onClick=${copy}>
    ${told}</button></div>`;
}
