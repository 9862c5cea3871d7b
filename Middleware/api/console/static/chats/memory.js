// @ts-check
// What memory holds of a chat: file memories, summary, state document, vector memories and times.
import { html, useEffect, useState } from "../vendor/preact.js";
import { useTold } from "../shared/asked.js";
import { Missing, Tabs } from "../shared/parts.js";
import { ask } from "../shared/server.js";
import { clock, counted, listed, sentence } from "../shared/words.js";

/**
 * @typedef {{text: string, at: number | null, from: string | null, pinned: boolean,
 *   made_by: {run: string, turn: number} | null}} MemoryRow
 * @typedef {{rows: MemoryRow[], next: number | null}} MemoryPage
 */

const TITLES = /** @type {Record<string, string>} */ ({
  memories: "Memories",
  summary: "Summary",
  state: "State",
  vectors: "Vectors",
  times: "Times",
});
const TYPING_MS = 250;

/** @param {{path: string, kinds: {kind: string, count: number}[], why: string | null, turn: number}} props */
export function Memory({ path, kinds, why, turn }) {
  const first = kinds.find(({ count }) => count > 0)?.kind ?? "memories";
  const [chosen, choose] = useState("");
  const kind = chosen || first;
  const count = kinds.find((one) => one.kind === kind)?.count ?? 0;
  const tabs = kinds.map((one) => ({ name: one.kind, title: TITLES[one.kind] }));
  return html`<section class="memory" aria-label="What memory holds"><h2>What memory holds</h2>
    ${why && html`<p class="notes quiet">${sentence(why)}</p>`}
    <${Tabs} label="Kinds of memory" tabs=${tabs} chosen=${kind} choose=${choose}>
      <${Rows} key=${kind} path=${path} kind=${kind} count=${count} turn=${turn} /><//>
    <p class="dim">Read only. <a href="#/help/memory">How memories are made</a></p></section>`;
}

/** @param {{path: string, kind: string, count: number, turn: number}} props */
function Rows({ path, kind, count, turn }) {
  const [typed, setTyped] = useState("");
  const [text, setText] = useState("");
  const [pages, setPages] = useState(/** @type {MemoryRow[][]} */ ([]));
  const offset = pages.reduce((sum, rows) => sum + rows.length, 0);
  useEffect(() => {
    const soon = setTimeout(() => (setText(typed), setPages([])), TYPING_MS);
    return () => clearTimeout(soon);
  }, [typed]);
  const query = { kind, text, offset: String(offset) };
  const of = count ? `${path} ${JSON.stringify(query)}` : "";
  const { data, error, again } = /** @type {import("../shared/asked.js").Asked<MemoryPage>} */ (
    useTold(of, (signal) => ask(`${path}/memory`, { query, signal }), count)
  );
  const rows = [...pages.flat(), ...(data?.rows ?? [])];
  if (!count) return html`<p class="dim">Nothing.</p>`;
  return html`${count > 1 && html`<input type="search" placeholder="Find" aria-label=${`Find in ${TITLES[kind]}`}
      value=${typed} onInput=${(/** @type {any} */ event) => setTyped(event.target.value)} />`}
    <ol class="memories">${rows.map((row, at) => html`<li key=${row.from ?? at} class=${row.made_by?.turn === turn
      ? "made" : ""}>
      <p class="dim">${listed(madeBy(row, turn), row.at !== null && clock(row.at), row.from, row.pinned
        && "pinned")}</p>
      <p class="text">${row.text}</p></li>`)}</ol>
    ${!data && html`<${Missing} error=${error} again=${again} rows=${3} />`}
    ${data && !rows.length && html`<p class="dim">Nothing matches.</p>`}
    ${data?.next && html`<button type="button" onClick=${() => setPages([...pages, data.rows])}>Show more</button>`}
    ${data && html`<p class="dim" role="status">${counted(rows.length, "row")} of ${count}</p>`}`;
}

/** @param {MemoryRow} row @param {number} turn the one that is chosen */
const madeBy = ({ made_by: maker }, turn) => maker && `${maker.turn === turn ? "made " : ""}by turn ${maker.turn}`;
