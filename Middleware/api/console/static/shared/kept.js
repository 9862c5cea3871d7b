// @ts-check
// What was chosen once and is kept by the browser: switches, and light or dark, which is the system's until then.
import { signal } from "../vendor/preact.js";

const PLACE = "headrace-console-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** What was chosen: `light`, `dark`, "" as the system. */
export const theme = signal(localStorage.getItem(PLACE) ?? "");

/** @param {string} wanted */
export function setTheme(wanted) {
  theme.value = wanted;
  localStorage.setItem(PLACE, wanted);
  show();
}

export const turnTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

function show() {
  document.documentElement.dataset.theme = theme.value || (dark.matches ? "dark" : "light");
}
dark.addEventListener("change", show);
show();

/**
 * A switch, and what turns it. It is off at first, or on where `word` stands for off.
 * @param {string} place @param {string} [word] what is kept of a turned one
 * @returns {[shown: {value: boolean}, turn: () => void]}
 */
export function keptSwitch(place, word = "1") {
  const usual = word === "off";
  const shown = signal((localStorage.getItem(place) === word) !== usual);
  const turn = () => {
    shown.value = !shown.value;
    localStorage.setItem(place, shown.value === usual ? "" : word);
  };
  return [shown, turn];
}
