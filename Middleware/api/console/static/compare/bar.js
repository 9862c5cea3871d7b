// @ts-check
// The bar at the foot of the list of runs: which are marked for Compare.
import { html } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { useKeys } from "../shared/keys.js";
import { clock } from "../shared/words.js";
import { marked } from "../runs/marked.js";

export function CompareBar() {
  const runs = marked.value;
  const clear = () => (marked.value = []);
  useKeys({ Escape: () => marked.value.length > 0 && (clear(), true) });
  const [first, second] = runs.map(({ name, path, at }) => `${name ?? path} ${clock(at)}`);
  return html`<p class="comparebar" role="status"><span>${first} and ${second ?? "..."}</span>
    ${second ? html`<a class="go" href=${addressOf("compare", runs.map(({ id }) => id))}>Compare</a>`
      : html`<span class="dim">press m on another run</span>`}
    <button type="button" class="plain" onClick=${clear}>Esc</button></p>`;
}
