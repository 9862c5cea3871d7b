// @ts-check
// Panes: a bar between two of them, which is dragged or moved by the arrows, and what stands in place of the text or
// below it.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";

const LEAST = 15;
const STEP = 5;
/** Where panes stand over each other in a narrow window. */
const narrow = matchMedia("(max-width: 1100px)");
/** What was chosen of each kind, as long as the page is open. @type {Record<string, number | undefined>} */
const shares = {};

/**
 * @param {{label: string, of?: string}} props its parent lays out by `--above`; with `of` the holder that this selector
 *   finds, by `--beside`, where the panes stand beside each other or, in a narrow window, over each other
 */
export function Divider({ label, of = "" }) {
  const [share, setShare] = useState(shares[of]);
  const [isNarrow, setNarrow] = useState(narrow.matches);
  const bar = useRef(/** @type {HTMLElement | null} */ (null));
  const isUpright = of !== "" && !isNarrow;
  const holder = () => /** @type {HTMLElement} */ (of ? bar.current?.closest(of) : bar.current?.parentElement);
  const put = (/** @type {number} */ wanted) => setShare(Math.round(Math.min(100 - LEAST, Math.max(LEAST, wanted))));
  useEffect(() => {
    const look = () => setNarrow(narrow.matches);
    narrow.addEventListener("change", look);
    return () => narrow.removeEventListener("change", look);
  }, []);
  useEffect(() => {
    const { style } = holder();
    const name = of ? "--beside" : "--above";
    shares[of] = share;
    if (share) style.setProperty(name, `${share}%`);
    return () => void style.removeProperty(name);
  }, [share]);
  const now = share ?? (of ? 38 : 50);
  const drag = (/** @type {PointerEvent} */ { currentTarget, pointerId, clientX, clientY }) => {
    if (!(/** @type {HTMLElement} */ (currentTarget).hasPointerCapture(pointerId))) return;
    const { left, top, width, height } = holder().getBoundingClientRect();
    const at = 100 * (isUpright ? (clientX - left) / width : (clientY - top) / height);
    put(of ? 100 - at : at);
  };
  const take = (/** @type {PointerEvent} */ event) =>
    /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId);
  const move = (/** @type {KeyboardEvent} */ event) => {
    const [back, forth] = isUpright ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
    const by = { [back]: -STEP, [forth]: STEP, Home: -100, End: 100 }[event.key];
    if (!by) return;
    event.preventDefault();
    put(now + (of ? -by : by));
  };
  return html`<div class=${of ? "divider upright" : "divider"} role="separator" tabindex="0" aria-label=${label}
    aria-orientation=${isUpright ? "vertical" : "horizontal"} aria-valuenow=${now} aria-valuemin=${LEAST}
    aria-valuemax=${100 - LEAST} ref=${bar} onPointerDown=${take} onPointerMove=${drag} onKeyDown=${move}></div>`;
}

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
