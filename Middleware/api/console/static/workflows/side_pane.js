// @ts-check
// What stands in place of the text, or below it.
import { html } from "../vendor/preact.js";

/**
 * @param {{title: string, note: string, look?: string, back?: string, close: () => void, children?: unknown}}
 *   props `close`: takes it away
 */
export const SidePane = ({
  title,
  note,
  look = "",
  back = "Back to the text",
  close,
  children,
}) => html`<section class="side-pane" aria-label=${title}>
  <div class="edbar"><h2>${title}</h2><span class="dim">${note}</span><button type="button" data-back
    onClick=${close}>${back}</button></div>
  <div class=${`panebody ${look}`}>${children}</div>
</section>`;
