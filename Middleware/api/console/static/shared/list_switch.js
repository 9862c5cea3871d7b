// @ts-check
// What the list at the left shows: runs, or the chats that they belong to.
import { html } from "../vendor/preact.js";

const LISTS = [
  ["runs", "Runs"],
  ["chats", "Chats"],
];

/** @param {{shown: string}} props */
export const ListSwitch = ({ shown }) =>
  html`<nav class="seg" aria-label="What is listed">${LISTS.map(
    ([name, title]) => html`<a href=${`#/${name}`} aria-current=${name === shown ? "page" : null}>${title}</a>`,
  )}</nav>`;
