// @ts-check
// Who holds a key of the keys file: today's numbers, and the commands that look after keys.
import { html } from "../vendor/preact.js";
import { useAsked } from "../shared/asked.js";
import { Failed } from "../shared/parts.js";
import { Rows } from "./history.js";
import { counted, moment } from "../shared/words.js";

const COMMANDS = [
  "./run --keys add NAME users=ann",
  "./run --keys list",
  "./run --keys rotate NAME",
  "./run --keys revoke NAME",
];
const WORDS = /** @type {Record<string, string>} */ ({
  concurrent: "of requests at once",
  requestsPerMinute: "of requests a minute",
  tokensPerDay: "of tokens a day",
  costPerDay: "of the cost a day",
});

export function Keys() {
  const { data, error, again } = useAsked("keys", 15);
  if (!data?.keys) return error && html`<${Failed} error=${error} again=${again} />`;
  const left = data.count - data.keys.length;
  return html`<h2>Keys</h2>
    <${Rows} label="Keys today" rows=${data.keys.map(keyRow)}
      none="The keys file has no entries, so nobody is let in." />
    ${left > 0 && html`<p class="dim">${counted(left, "more key")}, not used of late.</p>`}
    <p class="dim">Keys are made and withdrawn by commands alone (<a href="#/help/keys">how</a>):</p><pre tabindex="0">
    ${COMMANDS.join("\n")}</pre>`;
}

/** @param {any} key */
function keyRow({ name, users, requests, tokens, running, waiting, share, seen, expired, priority }) {
  const shares = Object.entries(share).map(([limit, part]) => `${Math.round(100 * part)} % ${WORDS[limit]}`);
  return {
    key: html`<a href=${`#/runs?key=${encodeURIComponent(name)}`}>${name}</a>${expired ? " (expired)"
      : priority === "background" ? " (background)" : ""}`,
    users: users.join(", ") || "none",
    requests,
    tokens,
    running,
    waiting,
    "of its limits": shares.join(", ") || "–",
    "last seen": seen ? moment(seen) : "–",
  };
}
