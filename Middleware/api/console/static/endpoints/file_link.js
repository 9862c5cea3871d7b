// @ts-check
// A config file as a link to its text.
import { html } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";

/** @param {{path: string}} props */
export const FileLink = ({ path }) =>
  html`<a href=${addressOf("workflows", path.split("/"))}>${bare(path)}</a>`;

/** @param {string} path */
const bare = (path) => path.replace(/^(Workflows|Endpoints)\//, "").replace(/\.json$/, "");
