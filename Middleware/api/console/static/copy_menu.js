// @ts-check
// The menu "Copy": each item puts one text on the clipboard.
import { html, useEffect, useState } from "./vendor/preact.js";
import { BODY_FILE, isLong } from "./commands.js";
import { copied, download, Menu } from "./parts.js";
import { ask } from "./server.js";
import { conversationIn } from "./spoken.js";
import { textOf } from "./texts.js";

/** @typedef {import("./types.js").Run} Run @typedef {import("./types.js").Node} Node @typedef {import("./types.js").Ref} Ref @typedef {import("./commands.js").Shell} Shell */

const SHELL = "headrace-console-shell";
const SAID_MS = 2500;

/** @param {{run: Run, node: Node | null, k: number}} props `k`: the call that is shown */
export function CopyMenu({ run, node, k }) {
  const [said, setSaid] = useState("");
  const [shell, setShell] = useState(/** @type {Shell} */ (localStorage.getItem(SHELL) ?? (/Win/.test(navigator.platform) ? "powershell" : "sh")));
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
  const call = calls.find((one) => one.k === k) ?? calls[0] ?? null;
  const answer = run.nodes.filter(({ answers, output }) => answers && output).at(-1)?.output ?? null;
  const noText = run.private ? "private" : "its text is not kept";
  const items = [
    { title: "This request as curl", off: run.asked ? "" : noText, act: put(() => requestAsCurl(run, shell)) },
    ...(node && call ? [{ title: `The call to ${call.endpoint ?? "the server"} as curl`, act: put(async () => (await ask(`runs/${encodeURIComponent(run.id)}/nodes/${node.i}/calls/${call.k}/curl`, { query: { shell } })).text) }] : []),
    ...(node ? [{ title: "As --explain", note: "with messages.json", off: run.asked ? "" : noText, act: put(() => explained(run, node, shell)) }] : []),
    { title: "Answer", off: answer ? "" : run.private || !run.texts ? noText : "there is none", act: put(async () => whole(await textOf(run.id, /** @type {Ref} */ (answer)))) },
    { title: "Link to this run", act: put(() => new URL(`#/runs/${encodeURIComponent(run.id)}`, document.baseURI).href) },
    { title: "All facts as JSON", act: put(() => facts(run)) },
    null,
    { title: "for sh", checked: shell === "sh", act: choose("sh") },
    { title: "for PowerShell", checked: shell === "powershell", act: choose("powershell") },
  ];
  return html`<${Menu} label="Copy" items=${items} /><span class="dim saidcopy" role="status">${said}</span>`;
}

/** @param {import("./types.js").Text} text */
const whole = ({ head, tail, left_out: left }) => (left ? `${head}\n[${left} characters are left out here]\n${tail}` : head);

/** @param {Run} run @param {Shell} shell @returns {Promise<string>} */
async function requestAsCurl(run, shell) {
  const text = whole(await textOf(run.id, /** @type {Ref} */ (run.asked)));
  if (isLong(text)) download(BODY_FILE, text);
  const address = new URL("..", document.baseURI).href;
  return (await ask(`runs/${encodeURIComponent(run.id)}/curl`, { query: { shell, address } })).text;
}

/** @param {Run} run @param {Node} node @param {Shell} shell @returns {Promise<string>} */
async function explained(run, node, shell) {
  const body = await textOf(run.id, /** @type {Ref} */ (run.asked));
  const messages = body.left_out ? [] : conversationIn(body.head);
  if (messages.length) download("messages.json", JSON.stringify(messages, null, 2));
  return (await ask(`runs/${encodeURIComponent(run.id)}/nodes/${node.i}/explain`, { query: { shell } })).text;
}

/** Everything that is kept, with each text in its place. @param {Run} run */
async function facts(run) {
  /** @param {any} value @returns {Promise<any>} */
  const filled = async (value) => {
    if (Array.isArray(value)) return Promise.all(value.map(filled));
    if (value === null || typeof value !== "object") return value;
    if (typeof value.ref === "string" && typeof value.chars === "number") return textOf(run.id, value).then(whole, () => value);
    const pairs = await Promise.all(Object.entries(value).map(async ([name, one]) => [name, await filled(one)]));
    return Object.fromEntries(pairs);
  };
  const { heard, ...told } = run;
  return JSON.stringify(await filled(told), null, 2);
}
