// @ts-check
// Light or dark: as the system, until somebody says otherwise.
import { signal } from "../vendor/preact.js";

const PLACE = "headrace-console-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** What was chosen: `light`, `dark`, "" as the system. */
export const theme = signal(localStorage.getItem(PLACE) ?? "");

/** @param {string} wanted */
export function setTheme(wanted) {
  theme.value = wanted;
  if (wanted) localStorage.setItem(PLACE, wanted);
  else localStorage.removeItem(PLACE);
  show();
}

export const turnTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

function show() {
  document.documentElement.dataset.theme = theme.value || (dark.matches ? "dark" : "light");
}
dark.addEventListener("change", show);
show();
