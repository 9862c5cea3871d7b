// @ts-check
// A list, or a bar of buttons, is one stop of the Tab key; arrows move within it.
import { useEffect } from "../vendor/preact.js";

/**
 * @param {{current: HTMLElement | null}} box
 * @param {string} items a selector within it
 * @param {boolean} [arrows] whether left and right move here; false: somebody else moves the focus
 */
export function useOneStop(box, items, arrows = true) {
  const all = () => /** @type {HTMLElement[]} */ ([...(box.current?.querySelectorAll(items) ?? [])]);
  const settle = () => {
    const found = all();
    const focused = found.find((one) => one === document.activeElement);
    const stop = focused ?? found.find((one) => one.ariaCurrent) ?? found.find((one) => one.tabIndex === 0) ?? found[0];
    for (const one of found) one.tabIndex = one === stop ? 0 : -1;
  };
  useEffect(settle);
  useEffect(() => {
    const here = box.current;
    if (!here) return;
    const move = (/** @type {KeyboardEvent} */ event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const target = /** @type {HTMLElement} */ (event.target);
      if (!arrows || !by || ["INPUT", "SELECT"].includes(target.tagName)) return;
      const found = all();
      const at = found.indexOf(target);
      if (at < 0) return;
      event.preventDefault();
      found[Math.max(0, Math.min(found.length - 1, at + by))].focus();
    };
    here.addEventListener("focusin", settle);
    here.addEventListener("keydown", move);
    return () => {
      here.removeEventListener("focusin", settle);
      here.removeEventListener("keydown", move);
    };
  }, [box.current]);
}
