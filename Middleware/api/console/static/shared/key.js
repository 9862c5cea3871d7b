// @ts-check
// The console's key: from the address or the form, kept for this tab alone. No cookie: nothing is sent by itself.
import { signal } from "../vendor/preact.js";

const PLACE = "headrace-console-key";
const IN_ADDRESS = "#key=";

/** Why the form is shown: `missing`, `wrong`, a sentence of the server; "" while it is not. */
export const keyWanted = signal("");
/** Counts the changes, for code that starts again with another key. */
export const keyTurn = signal(0);

export const keyNow = () => sessionStorage.getItem(PLACE) ?? "";

/** @param {string} key "" forgets it */
export function useKey(key) {
  if (key) sessionStorage.setItem(PLACE, key);
  else sessionStorage.removeItem(PLACE);
  keyWanted.value = key ? "" : "missing";
  keyTurn.value += 1;
}

/** Takes a key out of the address: it stays in no history. */
function takeFromAddress() {
  if (!location.hash.startsWith(IN_ADDRESS)) return;
  const key = location.hash.slice(IN_ADDRESS.length);
  history.replaceState(null, "", location.pathname + location.search);
  try {
    useKey(decodeURIComponent(key));
  } catch {
    useKey(key);
  }
}

takeFromAddress();
addEventListener("hashchange", takeFromAddress);
