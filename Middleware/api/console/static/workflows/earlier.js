// @ts-check
// The texts that saving has kept of a file: each beside the text as it is now, and the way back.
import { html, useState } from "../vendor/preact.js";
import { useAsked } from "../shared/asked.js";
import { Missing } from "../shared/parts.js";
import { routeOf } from "./saving.js";
import { TwoTexts } from "./two_texts.js";
import { moment, size } from "../shared/words.js";

/** @typedef {{texts: {at: string, saved: number, bytes: number}[]}} Kept */

/** @param {{path: string, now: string, reason: string, restore: (text: string) => void, close: () => void}} props
 *   `now`: the text in the page; `reason`: why nothing can be saved, "": it can */
export function Earlier({ path, now, reason, restore, close }) {
  const { data, error, again } = /** @type {import("../shared/asked.js").Asked<Kept>} */ (
    useAsked(`${routeOf(path)}/earlier`)
  );
  const [chosen, choose] = useState("");
  if (!data)
    return html`<section class="conflict" aria-label="Earlier texts"><${Missing} error=${error} again=${again} />
      </section>`;
  const at = chosen || data.texts[0]?.at;
  const pick = (/** @type {any} */ event) => choose(event.target.value);
  return html`<section class="conflict" aria-label="Earlier texts">
    <p class="acts">${
      at
        ? html`<label>Earlier text <select value=${at} onChange=${pick}>${data.texts.map((one) => html`<option
          value=${one.at}>${moment(one.saved)}, ${size(one.bytes)}</option>`)}</select></label>`
        : html`<span class="dim">
          No earlier text. Each time you save, the text before it is kept: the newest 20 of each file.</span>`
    }
      <button type="button" data-back onClick=${close}>Back to my text</button></p>
    ${at && html`<${Beside} key=${at} path=${path} at=${at} now=${now} reason=${reason} restore=${restore} />`}
  </section>`;
}

/** @param {{path: string, at: string, now: string, reason: string, restore: (text: string) => void}} props */
function Beside({ path, at, now, reason, restore }) {
  const { data, error, again } = /** @type {import("../shared/asked.js").Asked<{text: string}>} */ (
    useAsked(`${routeOf(path)}/earlier/${at}`)
  );
  if (!data) return html`<${Missing} error=${error} again=${again} />`;
  return html`<p class="acts"><button type="button" class="main" disabled=${reason !== "" || data.text === now}
    onClick=${() => restore(data.text)}>Restore</button>
      <span class="dim">${reason || (data.text === now ? "This is the text as it is now."
        : "Restoring saves this text; the one that it replaces is kept, too.")}</span></p>
    <${TwoTexts} left=${{ text: data.text, name: "the earlier text" }} right=${{ text: now,
      name: "the text as it is now" }} />`;
}
