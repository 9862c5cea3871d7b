// @ts-check
// A conversation to write: role and text boxes that can be added, removed and moved.
import { html } from "../vendor/preact.js";
import { ROLES, nextRole } from "../runs/spoken.js";

/** @typedef {import("./workflow_types.js").Message} Message */

/** @param {{messages: Message[], change: (messages: Message[]) => void, off?: boolean}} props */
export function Messages({ messages, change, off = false }) {
  const put = (/** @type {number} */ at, /** @type {Partial<Message>} */ part) =>
    change(messages.with(at, { ...messages[at], ...part }));
  const move = (/** @type {number} */ at, /** @type {number} */ to) =>
    change(messages.toSpliced(at, 1).toSpliced(to, 0, messages[at]));
  const button = (
    /** @type {string} */ words,
    /** @type {string} */ name,
    /** @type {boolean} */ cannot,
    /** @type {() => void} */ act,
  ) =>
    html`<button type="button" class="small" disabled=${off || cannot} aria-label=${name} onClick=${act}>${words}
      </button>`;
  return html`<ol class="talk" role="list" aria-label="Messages">
    ${messages.map(
      ({ role, content }, at) => html`<li key=${at} class=${`say ${role}`}>
      <div class="sayhead">
        <select aria-label=${`role of message ${at + 1}`} value=${role} disabled=${off}
          onChange=${(/** @type {any} */ event) => put(at, { role: event.target.value })}>
          ${ROLES.map((name) => html`<option value=${name} selected=${name === role}>${name}</option>`)}</select>
        <span class="sayacts">
          ${button("↑", `move message ${at + 1} up`, at === 0, () => move(at, at - 1))}
          ${button("↓", `move message ${at + 1} down`, at === messages.length - 1, () => move(at, at + 1))}
          ${button("remove", `remove message ${at + 1}`, messages.length === 1, () => change(messages.toSpliced(at,
            1)))}
        </span></div>
      <textarea rows=${Math.min(Math.max(content.split("\n").length, 2), 12)} aria-label=${`text of message ${at + 1}`}
        value=${content} disabled=${off}
        onInput=${(/** @type {any} */ event) => put(at, { content: event.target.value })}></textarea>
    </li>`,
    )}
  </ol>
  ${button("Add a message", "Add a message", false, () => change([...messages, { role: nextRole(messages),
    content: "" }]))}`;
}
