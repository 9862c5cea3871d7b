// @ts-check
// Asks for a check of what is typed: a while after the last key, one at a time, and only the newest is told.

const QUIET_MS = 300;

/**
 * @template A
 * @param {(text: string) => Promise<A>} ask
 * @param {(answer: A | null, error: Error | null, text: string) => void} told
 * @returns {{typed: (text: string) => void, stop: () => void}}
 */
export function checker(ask, told) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let clock;
  let busy = false;
  let ended = false;
  /** @type {string | null} */
  let waiting = null;

  async function next() {
    if (busy || waiting === null || ended) return;
    const text = waiting;
    waiting = null;
    busy = true;
    /** @type {[A | null, Error | null]} */
    const answer = await ask(text).then(
      (value) => [value, null],
      (error) => [null, error],
    );
    busy = false;
    if (ended) return;
    if (waiting === null && clock === undefined) told(...answer, text);
    else await next();
  }

  return {
    typed(text) {
      clearTimeout(clock);
      clock = setTimeout(() => {
        clock = undefined;
        waiting = text;
        next();
      }, QUIET_MS);
    },
    stop() {
      ended = true;
      clearTimeout(clock);
    },
  };
}
