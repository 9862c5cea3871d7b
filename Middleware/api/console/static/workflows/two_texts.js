// @ts-check
// Two texts side by side, with what differs.
import { html, useEffect, useRef } from "../vendor/preact.js";
import * as cm from "../vendor/editor.js";
import { look, rootIn } from "./editor_look.js";

/** @typedef {{text: string, name: string}} Side `name`: what stands over it */

/** @param {{left: Side, right: Side}} props */
export function TwoTexts({ left, right }) {
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
