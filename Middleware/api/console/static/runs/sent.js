// @ts-check
// The tab "Sent": the body of a call as it left the process; over it how much of the prompt the server had, and where
// it left the one before.
import { html, useMemo, useState } from "../vendor/preact.js";
import { useTold } from "../shared/asked.js";
import { Facts, Missing } from "../shared/parts.js";
import { boxLeft, leftWords, parsed, piecesOf, readingWords, reuseWords, sentIn } from "./sent_parts.js";
import { ask } from "../shared/server.js";
import { Box, JsonTree, NO_CALL, Switches, Whole, textOf, useText } from "./texts.js";
import { counted, size } from "../shared/words.js";

/**
 * @typedef {import("../shared/types.js").Run} Run
 * @typedef {import("../shared/types.js").Node} Node
 * @typedef {import("../shared/types.js").Call} Call
 */

/** @param {{run: Run, node: Node, call: Call | null, none: string}} props */
export function Sent({ run, node, call, none }) {
  if (!call) return NO_CALL;
  return html`<${Reuse} run=${run} node=${node} call=${call} /><${Body} run=${run} node=${node} call=${call}
    none=${none} />`;
}

/** @param {{run: Run, node: Node, call: Call, none: string}} props */
function Body({ run, node, call, none }) {
  const { data: text, error, again, whole, sent } = useSent(run.id, call.body);
  const [view, setView] = useState("");
  const split = useRemembered(run, sent ? node.i : 0);
  if (!call.body) return html`<p class="dim">${none}</p>`;
  if (!text) return html`<${Missing} error=${error} again=${again} rows=${4} />`;
  const shown = view || (sent ? "parts" : "body");
  const views = [
    ...(sent ? [["parts", "Messages"]] : []),
    ["body", "JSON"],
    ...(whole && text.json ? [["tree", "Indented"]] : []),
    ...(sent?.prompt ? [["ends", "Line ends"]] : []),
  ];
  return html`<${Switches} label="How it is shown" views=${views.length > 1 ? views : []} shown=${shown}
    choose=${setView}>as sent to ${call.endpoint ?? "the server"}, ${counted(text.chars, "character")}<//>
    ${
      shown === "parts" && sent
        ? html`<${Parts} sent=${sent} left=${boxLeft(sent, call.prompt?.leaves)} split=${split} />`
        : shown === "tree"
          ? html`<div class="msg code json"><${JsonTree} value=${parsed(whole)} /></div>`
          : html`<div class="msg"><${Whole} text=${
              shown === "ends" && sent?.prompt ? { ...text, head: sent.prompt.replaceAll("\n", "↵\n") } : text
            } /></div>`
    }`;
}

/** A body, and its parts where it is kept whole.
 * @param {string} id @param {import("../shared/types.js").Ref | null} ref */
export function useSent(id, ref) {
  const asked = useText(id, ref);
  const whole = asked.data?.left_out ? "" : (asked.data?.head ?? "");
  return { ...asked, whole, sent: useMemo(() => (whole ? sentIn(whole) : null), [whole]) };
}

const LEFT = html`<b class="left">leaves the one before here</b>`;

/** @typedef {(text: string) => import("./sent_parts.js").Piece[]} Split */

/**
 * Cuts texts at what the memory nodes before a node gave, where that is kept whole; null: there is none.
 * @param {Run} run @param {number} i the node's
 * @returns {Split | null}
 */
function useRemembered(run, i) {
  const nodes = run.nodes.filter((one) => one.i < i && one.remembers && one.output);
  const { data } = useTold(nodes.length ? `${run.id} ${nodes.map((one) => one.i)}` : "", async () => {
    const memories = await Promise.all(
      nodes.map(async ({ title, type, output }) => {
        const { head, left_out: cut } = await textOf(run.id, /** @type {import("../shared/types.js").Ref} */ (output));
        return { whose: title || type, text: cut ? "" : head };
      }),
    );
    return { split: (/** @type {string} */ text) => piecesOf(text, memories) };
  });
  return data?.split ?? null;
}

/**
 * A text; what memory gave is underlaid, and a line says whose it is.
 * @param {{text: string, split: Split | null}} props
 */
function Told({ text, split }) {
  const pieces = useMemo(() => split?.(text) ?? [], [text, split]);
  const givers = [...new Set(pieces.map(({ whose }) => whose).filter(Boolean))];
  if (!givers.length) return html`<pre>${text}</pre>`;
  return html`<pre>${pieces.map(({ text: piece, whose }) =>
    whose ? html`<mark class="given" title=${`from ${whose}`}>${piece}</mark>` : piece,
  )}</pre><p class="givenby">from ${givers.join(", ")}</p>`;
}

/**
 * @param {{sent: import("./sent_parts.js").Sent, left: number | string | null,
 *   split?: Split | null}} props `left`: the box to mark
 */
export function Parts({ sent, left, split = null }) {
  /** @param {number | string} box @param {string} title */
  const titled = (box, title) => (box === left ? html`${title} ${LEFT}` : title);
  return html`${sent.messages.map(
    (
      { role, text, pictures, calls },
      at,
    ) => html`<${Box} key=${at} kind=${role.split(",")[0]} title=${titled(at, role)} right=${`${counted(
      text.length,
      "character",
    )}${pictures.length ? `, ${counted(pictures.length, "picture")}` : ""}`}>
      ${text && html`<${Told} text=${text} split=${split} />`}${calls && html`<pre class="calls">${calls}</pre>`}
      ${
        pictures.length > 0 &&
        html`<p class="pictures">${pictures.map(
          ({ type, bytes, src }) => html`<span>
      ${src && html`<img src=${src} alt="" />`}<small>${type}${bytes === null ? ", not loaded" : `, ${size(bytes)}`}
      </small></span>`,
        )}</p>`
      }
      ${!text && !calls && !pictures.length && html`<p class="dim pad">empty</p>`}<//>`,
  )}
    ${
      sent.prompt !== null &&
      html`<${Box} kind="user" title=${titled("prompt", "prompt")}
      right=${counted(sent.prompt.length, "character")}><${Told} text=${sent.prompt} split=${split} /><//>`
    }
    ${
      sent.tools.length > 0 &&
      html`<p class="samplers"><span class="dim">${titled(
        "tools",
        counted(sent.tools.length, "tool"),
      )}</span> ${sent.tools.join(", ")}</p>`
    }
    ${sent.samplers.length > 0 && html`<${Facts} look="samplers" facts=${sent.samplers} />`}`;
}

const NO_PLACE = { place: null };

/** @param {{run: Run, node: Node, call: Call}} props */
export function Reuse({ run, node, call }) {
  const { prompt } = call;
  const path = `runs/${encodeURIComponent(run.id)}/nodes/${node.i}/calls/${call.k}/left`;
  const { data } = useTold(prompt?.leaves && call.body ? path : "", () => ask(path).catch(() => NO_PLACE));
  if (!prompt) return null;
  const place = /** @type {import("../shared/types.js").LeftPlace | null} */ (data?.place ?? null);
  return html`<div class="reuse"><p><b>${reuseWords(prompt)}</b> <span class="dim">
    ${readingWords(call.prompt_s)} ${leftWords(prompt, place?.placeholder)}</span></p>
    ${
      place &&
      (place.before || place.differs || place.after) &&
      html`<p class="leftat"><${Words} place=${place} />
    </p>`
    }</div>`;
}

/** Without the space behind it. @param {"del" | "ins"} kind @param {string} text */
const marked = (kind, text) => html`<${kind}>${text.trimEnd()}<//>${text.slice(text.trimEnd().length)}`;

/**
 * The words around the place; what stood there before is struck through.
 * @param {{place: import("../shared/types.js").LeftPlace}} props
 */
function Words({ place: { exact, before, differs, after, was } }) {
  return html`${before}${was && marked("del", was)}${differs && marked("ins", differs)}${after}${
    !exact &&
    html` <span
    class="dim">It differs within the next 256 characters; the prompt before is no longer kept.</span>`
  }`;
}
