// @ts-check
// What stands at the right in place of the text.
import { html } from "../vendor/preact.js";

/**
 * @param {{title: string, note: string, look?: string, close: () => void, children?: unknown}} props `close`: gives the
 *   text back
 */
export const SidePane = ({
  title,
  note,
  look = "",
  close,
  children,
}) => html`<section class="side-pane" aria-label=${title}>
  <div class="edbar"><h2>${title}</h2><span class="dim">${note}</span><button type="button" data-back
    onClick=${close}>Back to the text</button></div>
  <div class=${`panebody ${look}`}>${children}</div>
</section>`;
