// @ts-check
// The bar over every page: where one is, what the server does now, and what is wrong with the line to it.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { keyNow, keyWanted, useKey } from "./key.js";
import { showKeys } from "./keys.js";
import { Drawing, Menu } from "./parts.js";
import { wayFor } from "./place.js";
import { ask, lost, POLL_S, polling, refusal, state, updated } from "./server.js";
import { setTheme, theme, turnTheme } from "./kept.js";
import { clock, counted, number, sentence, size } from "./words.js";

/** What `--console-memory` counts in. */
const MIB = 1 << 20;

export const PAGES = [
  ["runs", "Runs"],
  ["workflows", "Workflows"],
  ["endpoints", "Endpoints"],
  ["overview", "Overview"],
  ["help", "Help"],
];

/** @param {{page: string}} props */
export function Bar({ page }) {
  const links = PAGES.map(([name, title]) => {
    const down = name === "endpoints" && state.value?.failing;
    return html`<a href=${wayFor(name)} aria-current=${name === page ? "page" : undefined}>${title}${down
      ? html` <b class="flag" title="how many fail now">${number(down)}<span class="unseen">
        ${down === 1 ? " fails" : " fail"}</span></b>` : ""}</a>`;
  });
  return html`<header class="top">
    <a class="brand" href="#/runs"><${Drawing} name="brand" box="0 0 24 16" /><span>Headrace</span></a>
    ${keyWanted.value ? html`<span class="gate"></span>` : html`<nav aria-label="Pages">${links}</nav><${Gate} />`}
    <button type="button" class="icon" aria-label="Light or dark" title="Light or dark" onClick=${turnTheme}>
    <${Drawing} name="theme" /></button>
    <${PageMenu} />
  </header>`;
}

/** What runs and waits; in its place, since when nothing came. */
function Gate() {
  const told = state.value;
  const trouble = lost.value === null ? told && refusal.value : `no answer since ${clock(lost.value)}, trying again`;
  if (trouble || !told) return html`<p class=${trouble ? "gate trouble" : "gate"} role="status">${trouble}</p>`;
  const { limit, running, waiting } = told.gate;
  const of = limit ? html` <span class="dim">of ${number(limit)}</span>` : "";
  return html`<p class="gate"><span class=${running ? "live busy" : "live"} aria-hidden="true"></span><b>
    ${number(running)}</b> running${of}${waiting ? html`, <b>${number(waiting)}</b> waiting` : ""}${
      polling.value &&
      html`<span class="dim" title="As many pages of this console are open as the server keeps up to date.">
        , updated every ${POLL_S} s</span>`
    }</p>`;
}

function PageMenu() {
  const told = state.value;
  const choice = (/** @type {string} */ wanted, /** @type {string} */ title) => ({
    title,
    checked: theme.value === wanted,
    act: () => setTheme(wanted),
  });
  const kept = told
    ? `${counted(told.kept.runs, "run")} kept, ${size(told.kept.bytes)}${
        told.kept.limit ? ` of ${number(told.kept.limit / MIB)}\u202fMB` : ""
      }`
    : "";
  const items = [
    choice("", "Use the system's colours"),
    choice("light", "Light"),
    choice("dark", "Dark"),
    null,
    { title: "Keyboard", note: "?", act: showKeys },
    ...(keyNow() ? [{ title: "Forget the key", act: () => useKey("") }] : []),
    ...(told ? [null, { title: `Headrace ${told.version}`, note: kept, act: () => (location.hash = "#/help") }] : []),
  ];
  return html`<${Menu} label="Menu" items=${items} />`;
}

/** Lines under the bar that hold for every page. */
export function Strips() {
  const told = state.value;
  return html`${
    updated.value &&
    html`<p class="strip" role="status">Headrace was updated. <button type="button"
    onClick=${() => location.reload()}>Reload</button></p>`
  }
    ${
      told &&
      told.processes > 1 &&
      html`<p
      class="strip">process ${told.pid}, one of ${told.processes}: other processes have their own runs</p>`
    }`;
}

const WRONG = "That key is not right.";

/** One field, the sentence, nothing else. */
export function KeyForm() {
  const [said, setSaid] = useState("");
  const [busy, setBusy] = useState(false);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => field.current?.focus(), []);
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const key = field.current?.value.trim() ?? "";
    if (!key || busy) return;
    setBusy(true);
    try {
      await ask("state", { key });
      useKey(key);
    } catch (error) {
      const { status, message } = /** @type {import("./server.js").ServerError} */ (error);
      setSaid(status === 401 ? WRONG : sentence(message));
      field.current?.select();
    }
    setBusy(false);
  };
  const trouble = said || (keyWanted.value === "wrong" && WRONG);
  return html`<form class="keyform" onSubmit=${send}><h1>This console needs a key</h1>
    <label for="key">Key</label><input id="key" type="password" autocomplete="current-password" ref=${field}
      aria-describedby="keysaid" />
    <button class="main" aria-disabled=${busy}>Open</button>
    <p id="keysaid" class=${trouble ? "trouble" : "dim"} role="status">
    ${
      trouble || "You find it in the server's terminal, or it was set with --console-key. It is kept in this tab only."
    }</p>
        </form>`;
}
