// @ts-check
// What the list of runs shows besides: chosen once, kept by the browser.
import { signal } from "../vendor/preact.js";

const PLACE = "headrace-console-held";
const FOLDED = "headrace-console-folded";

/** Whether each run says how much of its prompts the servers had been sent before. */
export const heldShown = signal(localStorage.getItem(PLACE) === "1");

export function turnHeld() {
  heldShown.value = !heldShown.value;
  if (heldShown.value) localStorage.setItem(PLACE, "1");
  else localStorage.removeItem(PLACE);
}

/** Whether the list is folded away, so that the run has the whole width. */
export const listFolded = signal(localStorage.getItem(FOLDED) === "1");

export function turnList() {
  listFolded.value = !listFolded.value;
  if (listFolded.value) localStorage.setItem(FOLDED, "1");
  else localStorage.removeItem(FOLDED);
}

/** A run that was opened by the keyboard: the focus goes into it. */
export const entered = { id: "" };
