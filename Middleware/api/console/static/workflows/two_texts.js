// @ts-check
// Two texts side by side, with what differs: of a file that was changed meanwhile, with the three ways out, and those
// that saving has kept of a file, with the way back.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import * as cm from "../vendor/editor.js";
import { useAsked } from "../shared/asked.js";
import { Missing, copied } from "../shared/parts.js";
import { moment, size } from "../shared/words.js";
import { look, rootIn } from "./editor_look.js";
import { routeOf } from "./workflow_place.js";

/** @typedef {{text: string, name: string}} Side `name`: what stands over it */

/** @param {{left: Side, right: Side}} props */
function TwoTexts({ left, right }) {
  const host = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const root = rootIn(host.current);
    const side = (/** @type {Side} */ { text, name }) => ({
      doc: text,
      extensions: [look(name, false), cm.EditorView.lineWrapping],
    });
    const view = new cm.MergeView({
      root,
      parent: root,
      a: side(left),
      b: side(right),
      gutter: true,
      collapseUnchanged: { margin: 3, minSize: 6 },
    });
    return () => view.destroy();
  }, [left.text, left.name, right.text, right.name]);
  return html`<p class="sides dim"><span>${left.name}</span><span>${right.name}</span></p>
    <div class="texthost" ref=${host}></div>`;
}

/** @param {{theirs: string, mine: string, keep: () => void, take: () => void, close: () => void}} props */
export function Conflict({ theirs, mine, keep, take, close }) {
  const [word, setWord] = useState("");
  const copy = async () => setWord((await copied(mine)) ? "Copied." : "The browser does not allow copying.");
  return html`<section class="conflict" aria-label="Conflict">
    <p class="notes bad" role="alert">The file has changed.</p>
    <p class="acts"><button type="button" class="main" onClick=${keep}>Keep mine</button><button type="button"
      onClick=${take}>Take theirs</button>
      <button type="button" onClick=${copy}>Copy mine</button><button type="button"
        onClick=${close}>Back to my text</button><span class="dim" role="status">${word}</span></p>
    <${TwoTexts} left=${{ text: theirs, name: "the file as it is now" }} right=${{ text: mine, name: "my text" }} />
  </section>`;
}

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
