// @ts-check
// Panes: a bar between two of them, which is dragged or moved by the arrows, and what stands in place of the text or
// below it: the dry run, and what it shares with Try it.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { ROLES, nextRole } from "../runs/spoken.js";
import { useTold } from "../shared/asked.js";
import { ask } from "../shared/server.js";
import { listed } from "../shared/words.js";

const LEAST = 15;
const STEP = 5;
/** Where panes stand over each other in a narrow window. */
const narrow = matchMedia("(max-width: 1100px)");
/** What was chosen of each kind, as long as the page is open. @type {Record<string, number | undefined>} */
const shares = {};

/**
 * @param {{label: string, of?: string}} props its parent lays out by `--above`; with `of` the holder that this selector
 *   finds, by `--beside`, where the panes stand beside each other or, in a narrow window, over each other
 */
export function Divider({ label, of = "" }) {
  const [share, setShare] = useState(shares[of]);
  const [isNarrow, setNarrow] = useState(narrow.matches);
  const bar = useRef(/** @type {HTMLElement | null} */ (null));
  const isUpright = of !== "" && !isNarrow;
  const holder = () => /** @type {HTMLElement} */ (of ? bar.current?.closest(of) : bar.current?.parentElement);
  const put = (/** @type {number} */ wanted) => setShare(Math.round(Math.min(100 - LEAST, Math.max(LEAST, wanted))));
  useEffect(() => {
    const look = () => setNarrow(narrow.matches);
    narrow.addEventListener("change", look);
    return () => narrow.removeEventListener("change", look);
  }, []);
  useEffect(() => {
    const { style } = holder();
    const name = of ? "--beside" : "--above";
    shares[of] = share;
    if (share) style.setProperty(name, `${share}%`);
    return () => void style.removeProperty(name);
  }, [share]);
  const now = share ?? (of ? 38 : 50);
  const drag = (/** @type {PointerEvent} */ { currentTarget, pointerId, clientX, clientY }) => {
    if (!(/** @type {HTMLElement} */ (currentTarget).hasPointerCapture(pointerId))) return;
    const { left, top, width, height } = holder().getBoundingClientRect();
    const at = 100 * (isUpright ? (clientX - left) / width : (clientY - top) / height);
    put(of ? 100 - at : at);
  };
  const take = (/** @type {PointerEvent} */ event) =>
    /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId);
  const move = (/** @type {KeyboardEvent} */ event) => {
    const [back, forth] = isUpright ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
    const by = { [back]: -STEP, [forth]: STEP, Home: -100, End: 100 }[event.key];
    if (!by) return;
    event.preventDefault();
    put(now + (of ? -by : by));
  };
  return html`<div class=${of ? "divider upright" : "divider"} role="separator" tabindex="0" aria-label=${label}
    aria-orientation=${isUpright ? "vertical" : "horizontal"} aria-valuenow=${now} aria-valuemin=${LEAST}
    aria-valuemax=${100 - LEAST} ref=${bar} onPointerDown=${take} onPointerMove=${drag} onKeyDown=${move}></div>`;
}

/**
 * @param {{title: string, note: string, look?: string, back?: string, close: () => void, children?: unknown}}
 *   props `close`: takes it away
 */
export const SidePane = ({
  title,
  note,
  look = "",
  back = "Back to the text",
  close,
  children,
}) => html`<section class="side-pane" aria-label=${title}>
  <div class="edbar"><h2>${title}</h2><span class="dim">${note}</span><button type="button" data-back
    onClick=${close}>${back}</button></div>
  <div class=${`panebody ${look}`}>${children}</div>
</section>`;

// --- a conversation to write ---

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

// --- dry run: what each node would send and write, without a model and without times. It calls no backend ---

/**
 * @typedef {{url: string, headers: Record<string, string>, body: unknown}} Sent
 * @typedef {{workflow: string, number: number, type: string, title: string, depth: number, answers: boolean,
 *   fields: Record<string, unknown>, sent: Sent[], notes: string[], output: string}} DryNode
 * @typedef {{nodes: DryNode[], error?: string | null}} Walk
 */

/** What was written last, for the next look. @type {Message[]} */
let keptMessages = [{ role: "user", content: "Hello" }];

/**
 * @param {{path: string, user: string, unsaved: () => string | undefined, close: () => void}} props `unsaved`: the
 *   text, when it differs from the file
 */
export function DryRun({ path, user, unsaved, close }) {
  const [messages, setMessages] = useState(keptMessages);
  const [open, setOpen] = useState(0);
  keptMessages = messages;
  const { data, error, again } = useTold(`${user} ${path}`, (signal) => {
    const text = unsaved();
    return ask("dry-run", { method: "POST", body: { path, user, messages, text }, signal }).then((walk) => ({
      .../** @type {Walk} */ (walk),
      ofDraft: text !== undefined,
    }));
  });
  const nodes = data?.nodes ?? [];
  const shown = Math.min(open, nodes.length - 1);
  return html`<${SidePane} title="Dry run" note="no model is called and nothing is written" close=${close}>
    <details><summary>Messages</summary><${Messages} messages=${messages} change=${setMessages} /></details>
    <p class="acts"><button type="button" class="main" onClick=${again}>Run it again</button>
      ${data && html`<span class="dim" role="status">${nodes.length} nodes from ${data.ofDraft ? "the unsaved text"
        : "the saved file"}</span>`}</p>
    ${[error?.message, data?.error].map((said) => said && html`<p class="notes bad" role="alert">${said}</p>`)}
    ${
      nodes.length > 0 &&
      html`<ol class="fall dry" role="list" aria-label="Nodes walked">
      ${nodes.map((node, at) => html`<li key=${at}><${Walked} node=${node} open=${at === shown}
        turn=${() => setOpen(at === shown ? -1 : at)} /></li>`)}
    </ol>`
    }
  <//>`;
}

/** A heading over what is told in its own words. @param {{title: string, of?: string, children: unknown}} props */
const Told = ({ title, of, children }) =>
  html`<div class="msg"><h3>${title}${of && html`<span>${of}</span>`}</h3><pre tabindex="0">${children}</pre></div>`;

/** @param {{node: DryNode, open: boolean, turn: () => void}} props */
function Walked({ node, open, turn }) {
  const { number, title, type, depth, answers, sent, notes, fields, output } = node;
  return html`<button type="button" class="fallrow" style=${{ "--depth": depth }} aria-expanded=${open}
    aria-current=${open || null} onClick=${turn}>
      <span class="lab"><span class="n">${number}</span><span class="t">${title || type}</span>${answers && html`<span
        class="flag">answers</span>`}</span>
      <span class="dim what">${doing(node)}</span></button>
    ${
      open &&
      html`<div class="drypart">
      ${notes.map((note) => html`<p class="prob warning">${note}</p>`)}
      ${sent.map(({ url, headers, body }) => html`<${Told} title="Would be sent" of=${url}>
      ${Object.entries(headers).map(([name, value]) => `${name}: ${value}\n`)}${"\n"}${indented(body)}<//>`)}
      <${Told} title="Fields, filled" of=${type}>${indented(fields)}<//>
      <${Told} title="Output">${output}<//>
    </div>`
    }`;
}

/** What a node does, in a few words. @param {DryNode} node */
function doing({ type, title, sent, notes }) {
  const calls = sent.length > 0 && (sent.length === 1 ? "asks a model" : `asks a model ${sent.length} times`);
  return listed(title && type, calls, ...notes);
}

/** @param {unknown} value */
const indented = (value) => JSON.stringify(value, null, 2);
