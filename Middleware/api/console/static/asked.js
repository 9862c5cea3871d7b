// @ts-check
// What a page asked the server for: what was there stays until the new is.
import { useCallback, useEffect, useRef, useState } from "./vendor/preact.js";
import { ask } from "./server.js";

/** @template T @typedef {{ data: T | null, error: Error | null, again: () => void }} Asked */

/** Asks for `path` now, when it changes, and each `every` seconds while the page is seen (0: never again).
 * @template T
 * @param {string} path @param {number} [every] @param {Record<string, string>} [query]
 * @returns {{ data: T | null, error: Error | null, again: () => void }} */
export function useAsked(path, every = 0, query) {
  const [told, tell] = useState(/** @type {{ of: string, data: T | null, error: Error | null }} */ ({ of: "", data: null, error: null }));
  const busy = useRef(/** @type {AbortController | null} */ (null));
  const of = `${path}?${new URLSearchParams(query ?? {})}`;
  const again = useCallback(async () => {
    busy.current?.abort();
    const mine = (busy.current = new AbortController());
    try {
      const data = await ask(path, { query, signal: mine.signal });
      if (busy.current === mine) tell({ of, data, error: null });
    } catch (error) {
      if (busy.current !== mine || mine.signal.aborted) return;
      tell((/** @type {{ of: string, data: T | null, error: Error | null }} */ was) => ({ of, data: was.of === of ? was.data : null, error: /** @type {Error} */ (error) }));
    }
  }, [of]);
  useEffect(() => {
    again();
    const clock = every ? setInterval(() => document.hidden || again(), every * 1000) : 0;
    return () => {
      clearInterval(clock);
      busy.current?.abort();
      busy.current = null;
    };
  }, [again, every]);
  return { data: told.of === of ? told.data : null, error: told.of === of ? told.error : null, again };
}
