// @ts-check
// What the list of runs shows besides: chosen once, kept by the browser.
import { signal } from "../vendor/preact.js";

const PLACE = "headrace-console-held";

/** Whether each run says how much of its prompts the servers had been sent before. */
export const heldShown = signal(localStorage.getItem(PLACE) === "1");

export function turnHeld() {
  heldShown.value = !heldShown.value;
  if (heldShown.value) localStorage.setItem(PLACE, "1");
  else localStorage.removeItem(PLACE);
}
