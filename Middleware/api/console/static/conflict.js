// @ts-check
// A file that was changed meanwhile: both texts side by side, and the three ways out.
import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import * as cm from "./vendor/editor.js";
import { look, rootIn } from "./editor_look.js";
import { copied } from "./parts.js";

/** @param {{theirs: string, mine: string, keep: () => void, take: () => void, close: () => void}} props */
export function Conflict({ theirs, mine, keep, take, close }) {
  const host = useRef(/** @type {HTMLElement | null} */ (null));
  const [word, setWord] = useState("");
  useEffect(() => {
    const root = rootIn(host.current);
    const side = (/** @type {string} */ doc, /** @type {string} */ label) => ({ doc, extensions: [look(label, false), cm.EditorView.lineWrapping] });
    const view = new cm.MergeView({ root, parent: root, a: side(theirs, "the file as it is now"), b: side(mine, "my text"), gutter: true, collapseUnchanged: { margin: 3, minSize: 6 } });
    return () => view.destroy();
  }, [theirs, mine]);
  const copy = async () => setWord((await copied(mine)) ? "Copied." : "The browser does not allow copying.");
  return html`<section class="conflict" aria-label="Conflict">
    <p class="notes bad" role="alert">The file has changed.</p>
    <p class="acts"><button type="button" class="main" onClick=${keep}>Keep mine</button><button type="button" onClick=${take}>Take theirs</button>
      <button type="button" onClick=${copy}>Copy mine</button><button type="button" onClick=${close}>Back to my text</button><span class="dim" role="status">${word}</span></p>
    <p class="sides dim"><span>the file as it is now</span><span>my text</span></p>
    <div class="texthost" ref=${host}></div>
  </section>`;
}
