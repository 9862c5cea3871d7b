// @ts-check
// A text of a node with its variables filled in, from the last run of the file. Source: spec workbench.md 1.
import { html, useEffect, useState } from "../vendor/preact.js";
import { useTold } from "../shared/asked.js";
import { ask } from "../shared/server.js";
import { clock, counted } from "../shared/words.js";
import { namesIn } from "./text_field.js";

/** @typedef {{name: string, words: string, length: string}} Row a variable, how its value begins, and its length */

/**
 * What stands below a text: what its placeholders gave in the last run, and the whole text filled in.
 * @param {{name: string, text: string, hints: import("./form.js").Hints}} props `name`: of the field
 */
export function RunTexts({ name, text, hints: { given, filling } }) {
  const [open, turn] = useState(false);
  useEffect(() => turn(false), [text, filling?.id]);
  const rows = namesIn(text).flatMap((one) => {
    const gave = given(one);
    return gave ? [{ name: one, ...gave }] : [];
  });
  const outputs = html`<${Values} label="What the placeholders gave in the last run" rows=${rows} />`;
  if (!filling || !text.includes("{")) return outputs;
  return html`<p class="acts"><button type="button" class="small" aria-expanded=${open}
      onClick=${() => turn(!open)}>Preview</button></p>
    ${open ? html`<${Filled} name=${name} text=${text} filling=${filling} outputs=${outputs} />` : outputs}`;
}

/**
 * @param {{name: string, text: string, outputs: unknown,
 *   filling: NonNullable<import("./form.js").Hints["filling"]>}} props `outputs`: shown where there is nothing else
 */
function Filled({ name, text, filling: { id, at, path, n, body }, outputs }) {
  const { data, error } = useTold(id, (signal) => ask("dry-run", { method: "POST", body: body(), signal }));
  const node = data?.nodes.find((/** @type {any} */ one) => !one.depth && one.workflow === path && one.number === n);
  const why = error?.message ?? data?.error ?? "this node is not reached.";
  if (!node)
    return html`<p class="why" role="status">${data || error ? `No preview: ${why}` : "loading"}</p>${outputs}`;
  const rows = namesIn(text)
    .filter((one) => node.variables[one])
    .map((one) => {
      const { start, tokens } = node.variables[one];
      return { name: one, words: start, length: counted(tokens, "token") };
    });
  return html`<div class="preview"><p class="why">Filled from the <a href=${`#/runs/${encodeURIComponent(id)}`}>run of
      ${` ${clock(at)}`}</a>. Variables that are no outputs are computed from its messages, as of now.</p>
    <pre class="pre" tabindex="0" aria-label="The text, filled">${String(node.fields[name] ?? "")}</pre>
    <${Values} label="What the variables are" rows=${rows} /></div>`;
}

/** @param {{label: string, rows: Row[]}} props */
const Values = ({ label, rows }) =>
  rows.length > 0 &&
  html`<ul class="given" role="list" aria-label=${label}>
    ${rows.map(({ name, words, length }) => html`<li key=${name}><code>${name}</code><span>${words}</span>
      <small>${length}</small></li>`)}</ul>`;
