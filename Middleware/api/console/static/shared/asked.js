// @ts-check
// What a page asked for: what was there stays until the new is; and a clock for what grows while one looks.
import { signal, useEffect, useRef, useState } from "../vendor/preact.js";
import { ask } from "./server.js";

/** @template T @typedef {{ data: T | null, error: Error | null, again: () => void }} Asked */

/** What `make` promises, as long as it is of the same thing.
 * @template T
 * @param {string} of the thing; "" asks for nothing @param {(stop: AbortSignal) => Promise<T>} make
 * @param {unknown} [mark] asked again when it changes
 * @returns {Asked<T>} */
export function useTold(of, make, mark) {
  const nothing = /** @type {{ of: string, data: T | null, error: Error | null }} */ ({ of, data: null, error: null });
  const [told, tell] = useState(nothing);
  const asked = useRef(/** @type {AbortController | null} */ (null));
  const again = () => {
    asked.current?.abort();
    const { signal } = (asked.current = new AbortController());
    make(signal).then(
      (data) => signal.aborted || tell({ of, data, error: null }),
      (error) => signal.aborted || tell((was) => ({ of, data: was.of === of ? was.data : null, error })),
    );
  };
  useEffect(() => {
    if (of) again();
    return () => asked.current?.abort();
  }, [of, mark]);
  return { ...(told.of === of ? told : nothing), again };
}

/** What runs for the reader, one thing at a time: `begin` gives the signal that ends it. It ends with the page. */
export function useStopper() {
  const stopper = useRef(/** @type {AbortController | null} */ (null));
  const stop = () => stopper.current?.abort();
  useEffect(() => stop, []);
  return { stop, begin: () => (stopper.current = new AbortController()).signal };
}

/** A part of the page's own code. @template T @param {string} name "": not yet @param {() => Promise<T>} load */
export const useCode = (name, load) =>
  useTold(name, () => load().catch(() => Promise.reject(new Error("This part of the page could not be loaded."))));

/** What the server says to `path`, asked each `every` seconds while the page is seen (0: once).
 * @template T
 * @param {string} path @param {number} [every] @param {Record<string, string>} [query]
 * @returns {Asked<T>} */
export function useAsked(path, every = 0, query) {
  const told = useTold(`${path}?${new URLSearchParams(query)}`, (signal) => ask(path, { query, signal }));
  const { again } = told;
  const latest = useRef(again);
  latest.current = again;
  useEffect(() => {
    const clock = every ? setInterval(() => document.hidden || latest.current(), every * 1000) : 0;
    return () => clearInterval(clock);
  }, [every]);
  return told;
}

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
