// @ts-check
// A conversation to write: role and text boxes that can be added, removed and moved.
import { html } from "./vendor/preact.js";
import { ROLES, nextRole } from "./spoken.js";

/** @typedef {import("./workflow_types.js").Message} Message */

/** @param {{messages: Message[], change: (messages: Message[]) => void, off?: boolean}} props */
export function Messages({ messages, change, off = false }) {
  const put = (/** @type {number} */ at, /** @type {Partial<Message>} */ part) => change(messages.map((message, i) => (i === at ? { ...message, ...part } : message)));
  const move = (/** @type {number} */ at, /** @type {number} */ to) => {
    const moved = [...messages];
    moved.splice(to, 0, ...moved.splice(at, 1));
    change(moved);
  };
  return html`<ol class="talk" role="list" aria-label="Messages">
    ${messages.map(({ role, content }, at) => html`<li key=${at} class=${`say ${role}`}>
      <div class="sayhead">
        <select aria-label=${`role of message ${at + 1}`} value=${role} disabled=${off} onChange=${(/** @type {any} */ event) => put(at, { role: event.target.value })}>
          ${ROLES.map((name) => html`<option value=${name} selected=${name === role}>${name}</option>`)}</select>
        <span class="sayacts">
          <button type="button" class="small" disabled=${off || at === 0} aria-label=${`move message ${at + 1} up`} onClick=${() => move(at, at - 1)}>↑</button>
          <button type="button" class="small" disabled=${off || at === messages.length - 1} aria-label=${`move message ${at + 1} down`} onClick=${() => move(at, at + 1)}>↓</button>
          <button type="button" class="small" disabled=${off || messages.length === 1} aria-label=${`remove message ${at + 1}`} onClick=${() => change(messages.filter((_, i) => i !== at))}>remove</button>
        </span></div>
      <textarea rows=${Math.min(Math.max(content.split("\n").length, 2), 12)} aria-label=${`text of message ${at + 1}`} value=${content} disabled=${off}
        onInput=${(/** @type {any} */ event) => put(at, { content: event.target.value })}></textarea>
    </li>`)}
  </ol>
  <button type="button" class="small" disabled=${off} onClick=${() => change([...messages, { role: nextRole(messages), content: "" }])}>Add a message</button>`;
}
