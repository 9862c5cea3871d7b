// @ts-check
// A clock for what grows while one looks: it stands still when nobody looks, or nothing grows.
import { signal, useEffect } from "../vendor/preact.js";

const EVERY_MS = 250;
const tick = signal(performance.now());
let readers = 0;
let clock = 0;

/** The page's own time in ms; told again and again while `grows`. @param {boolean} grows */
export function useNow(grows) {
  useEffect(() => {
    if (!grows) return;
    if (readers++ === 0) clock = setInterval(() => document.hidden || (tick.value = performance.now()), EVERY_MS);
    return () => {
      if (--readers === 0) clearInterval(clock);
    };
  }, [grows]);
  return grows ? Math.max(tick.value, performance.now() - EVERY_MS) : 0;
}
