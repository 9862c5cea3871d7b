// @ts-check
// The tab "Sent": the body of a call as it left the process.
import { html, useMemo, useState } from "../vendor/preact.js";
import { Facts, Missing } from "../shared/parts.js";
import { Reuse } from "./reuse.js";
import { boxLeft, parsed, sentIn } from "./sent_parts.js";
import { Box, JsonTree, Switches, Whole, useText } from "./texts.js";
import { counted, size } from "../shared/words.js";

/** @typedef {import("../shared/types.js").Call} Call @typedef {import("../shared/types.js").Run} Run */

/** @param {{run: Run, node: import("../shared/types.js").Node, call: Call | null, none: string}} props */
export function Sent({ run, node, call, none }) {
  if (!call) return html`<p class="dim">This node called no model and no other server.</p>`;
  return html`<${Reuse} run=${run} node=${node} call=${call} /><${Body} run=${run} call=${call} none=${none} />`;
}

/** @param {{run: Run, call: Call, none: string}} props */
function Body({ run, call, none }) {
  const { data: text, error, again } = useText(run.id, call.body);
  const [view, setView] = useState("");
  const whole = text && !text.left_out ? text.head : "";
  const sent = useMemo(() => (whole ? sentIn(whole) : null), [whole]);
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
        ? html`<${Parts} sent=${sent} left=${boxLeft(sent, call.prompt?.leaves)} />`
        : shown === "tree"
          ? html`<div class="msg code json"><${JsonTree} value=${parsed(whole)} /></div>`
          : html`<div class="msg"><${Whole} text=${
              shown === "ends" && sent?.prompt ? { ...text, head: sent.prompt.replaceAll("\n", "↵\n") } : text
            } /></div>`
    }`;
}

const LEFT = html`<b class="left">leaves the one before here</b>`;

/** @param {{sent: import("./sent_parts.js").Sent, left: number | string | null}} props `left`: the box to mark */
export function Parts({ sent, left }) {
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
      ${text && html`<pre>${text}</pre>`}${calls && html`<pre class="calls">${calls}</pre>`}
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
      right=${counted(sent.prompt.length, "character")}><pre>${sent.prompt}</pre><//>`
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
