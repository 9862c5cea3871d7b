// @ts-check
// A bar between two panes that stand over each other: it is dragged, or moved by the arrows.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";

const LEAST = 15;
const STEP = 5;
/** How much of the height the upper pane has, in percent, as long as the page is open. */
let above = 50;

/** @param {{label: string}} props its parent lays out by `--above` */
export function Divider({ label }) {
  const [share, setShare] = useState(above);
  const bar = useRef(/** @type {HTMLElement | null} */ (null));
  const put = (/** @type {number} */ wanted) => {
    above = Math.round(Math.min(100 - LEAST, Math.max(LEAST, wanted)));
    setShare(above);
  };
  useEffect(() => {
    const box = bar.current?.parentElement;
    box?.style.setProperty("--above", `${share}%`);
    return () => void box?.style.removeProperty("--above");
  }, [share]);
  const drag = (/** @type {PointerEvent} */ event) => {
    const here = /** @type {HTMLElement} */ (event.currentTarget);
    const box = here.parentElement?.getBoundingClientRect();
    if (!box || !here.hasPointerCapture(event.pointerId)) return;
    put((100 * (event.clientY - box.top)) / box.height);
  };
  const take = (/** @type {PointerEvent} */ event) =>
    /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId);
  const move = (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowUp: -STEP, ArrowDown: STEP, Home: -100, End: 100 }[event.key];
    if (!by) return;
    event.preventDefault();
    put(above + by);
  };
  return html`<div class="divider" role="separator" aria-orientation="horizontal" aria-label=${label} tabindex="0"
    aria-valuenow=${share} aria-valuemin=${LEAST} aria-valuemax=${100 - LEAST} ref=${bar} onPointerDown=${take}
    onPointerMove=${drag} onKeyDown=${move}></div>`;
}
