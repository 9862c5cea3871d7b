// @ts-check
// The menu "Copy": each item puts one text on the clipboard.
import { html, useEffect, useState } from "../vendor/preact.js";
import { BODY_FILE, isLong } from "./commands.js";
import { fileOf } from "./node_tabs.js";
import { copied, download, Menu } from "../shared/parts.js";
import { ask } from "../shared/server.js";
import { conversationIn } from "./spoken.js";
import { textOf } from "./texts.js";

/**
 * @typedef {import("../shared/types.js").Run} Run
 * @typedef {import("../shared/types.js").Node} Node
 * @typedef {import("../shared/types.js").Ref} Ref
 * @typedef {import("./commands.js").Shell} Shell
 */

const SHELL = "headrace-console-shell";
const SHELLS = /** @type {[Shell, string][]} */ ([
  ["sh", "for sh"],
  ["powershell", "for PowerShell"],
]);
const SAID_MS = 2500;

/** @param {{run: Run, node: Node | null, k: number}} props `k`: the call that is shown */
export function CopyMenu({ run, node, k }) {
  const [said, setSaid] = useState("");
  const [shell, setShell] = useState(
    /** @type {Shell} */ (localStorage.getItem(SHELL) ?? (/Win/.test(navigator.platform) ? "powershell" : "sh")),
  );
  useEffect(() => {
    if (!said) return;
    const clock = setTimeout(() => setSaid(""), SAID_MS);
    return () => clearTimeout(clock);
  }, [said]);
  const put = (/** @type {() => string | Promise<string>} */ make) => async () => {
    try {
      setSaid((await copied(await make())) ? "Copied" : "Not copied");
    } catch (error) {
      setSaid(/** @type {Error} */ (error).message);
    }
  };
  const choose = (/** @type {Shell} */ wanted) => () => {
    localStorage.setItem(SHELL, wanted);
    setShell(wanted);
  };
  const calls = node?.calls.filter(({ kind, body }) => kind === "model" && body) ?? [];
  const call = calls.find((one) => one.k === k) ?? calls[0];
  const answer = run.nodes.filter(({ answers, output }) => answers && output).at(-1)?.output;
  const noText = run.private ? "private" : "its text was not kept";
  const off = run.asked ? "" : noText;
  const path = `runs/${encodeURIComponent(run.id)}`;
  const command = (/** @type {string} */ of, query = {}) =>
    ask(`${path}${of}`, { query: { shell, ...query } }).then(({ text }) => text);
  const address = new URL("..", document.baseURI).href;
  const items = [
    { title: "This request as curl", off, act: put(async () => (await offerBody(run), command("/curl", { address }))) },
    ...(node && call
      ? [
          {
            title: `The call to ${call.endpoint ?? "the server"} as curl`,
            act: put(() => command(`/nodes/${node.i}/calls/${call.k}/curl`)),
          },
        ]
      : []),
    ...(node && fileOf(node)
      ? [
          {
            title: "As --explain",
            note: "with messages.json",
            off,
            act: put(async () => (await offerMessages(run), command(`/nodes/${node.i}/explain`))),
          },
        ]
      : []),
    {
      title: "Answer",
      off: answer ? "" : run.private || !run.texts ? noText : "there is none",
      act: put(async () => whole(await textOf(run.id, /** @type {Ref} */ (answer)))),
    },
    { title: "Link to this run", act: put(() => new URL(`#/${path}`, document.baseURI).href) },
    { title: "All facts as JSON", act: put(() => facts(run)) },
    null,
    ...SHELLS.map(([name, title]) => ({ title, checked: shell === name, act: choose(name) })),
  ];
  return html`<${Menu} label="Copy" items=${items} /><span class="dim saidcopy" role="status">${said}</span>`;
}

/** @param {import("../shared/types.js").Text} text */
const whole = ({ head, tail, left_out: left }) =>
  left ? `${head}\n[${left} characters were left out here]\n${tail}` : head;

/** The body of a request that is too long for a command. @param {Run} run */
async function offerBody(run) {
  const text = whole(await textOf(run.id, /** @type {Ref} */ (run.asked)));
  if (isLong(text)) download(BODY_FILE, text);
}

/** The file that the command names. @param {Run} run */
async function offerMessages(run) {
  const body = await textOf(run.id, /** @type {Ref} */ (run.asked));
  const messages = body.left_out ? [] : conversationIn(body.head);
  if (messages.length) download("messages.json", JSON.stringify(messages, null, 2));
}

/** Everything that is kept, with each text in its place. @param {Run} run */
async function facts(run) {
  /** @param {any} value @returns {Promise<any>} */
  const filled = async (value) => {
    if (Array.isArray(value)) return Promise.all(value.map(filled));
    if (value === null || typeof value !== "object") return value;
    if (typeof value.ref === "string" && typeof value.chars === "number")
      return textOf(run.id, value).then(whole, () => value);
    const pairs = await Promise.all(Object.entries(value).map(async ([name, one]) => [name, await filled(one)]));
    return Object.fromEntries(pairs);
  };
  const { heard, ...told } = run;
  return JSON.stringify(await filled(told), null, 2);
}
