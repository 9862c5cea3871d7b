// @ts-check
// Find servers: its button, and what it opens.
import { html, useState } from "../vendor/preact.js";
import { useCode } from "./asked.js";
import { Missing } from "./parts.js";

/** @param {string} [look] of the button @param {() => void} [changed] an endpoint file was written */
export function useFinder(look, changed) {
  const [finding, find] = useState(false);
  const { data, error, again } = useCode(finding ? "find" : "", () => import("../endpoints/find.js"));
  const found = () =>
    data
      ? html`<${data.FindServers} changed=${changed} />`
      : html`<${Missing} error=${error} again=${again} rows=${2} />`;
  return {
    button: html`<button type="button" class=${look} aria-expanded=${finding} onClick=${() => find(!finding)}>
      Find servers</button>`,
    servers: finding && found(),
  };
}
