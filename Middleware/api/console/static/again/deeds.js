// @ts-check
// What can be done again with a run and its nodes: buttons and links. What they open is loaded then.
import { isActive } from "../shared/words.js";
import { html, signal, useEffect, useState } from "../vendor/preact.js";
import { addressOf } from "../shared/address.js";
import { useCode } from "../shared/asked.js";
import { Menu, Missing } from "../shared/parts.js";
import { place } from "../shared/place.js";
import { compareWith } from "../runs/columns.js";
import { ASK, repeatWords } from "../runs/run_list.js";
import { ask, hasRight, needsKey } from "../shared/server.js";

/** @typedef {import("../shared/types.js").Run} Run @typedef {import("../shared/types.js").Node} Node */

/** From where the open run is to run again; null: nobody wants that now. */
const wanted = signal(/** @type {{start: number | null} | null} */ (null));

/** Why nothing can be run again; "": the server knows more. @param {Run} run */
function whyNot(run) {
  if (!hasRight("act")) return needsKey("Running again");
  if (run.private) return "The run is private, so nothing was kept that could be sent again.";
  if (isActive(run)) return "The run has not ended yet.";
  return run.asked ? "" : "The client's request is not kept.";
}

/**
 * The main button of a run, and its menu.
 * @param {{run: Run, edit: (() => void) | null}} props `edit`: opens Try with the texts of the run; null: it cannot
 */
export function RunAgain({ run, edit }) {
  const off = whyNot(run);
  return html`<${Opener} start=${null} off=${off} look="main" words="Run again" />
    <${Menu} label="More" items=${[...(edit ? [{ title: "Edit and try", note: "t", act: edit }] : []),
      { title: "Compare with another run", note: "m", act: () => compareWith(run) }]} />`;
}

/** The same from a node on, where it is one of the run's own file. @param {{run: Run, node: Node}} props */
export function FromHere({ run, node }) {
  const own = run.nodes.filter(({ parent, state: is }) => parent === null && is !== "not_run").at(-1)?.workflow ?? "";
  if (node.parent !== null || node.workflow !== own || !/^Workflows\//.test(own) || run.private) return null;
  return html`<${Opener} start=${node.number} off=${whyNot(run)} look="small" words="Run again from here" />`;
}

/** Whether the run stays until the restart. @param {{run: Run}} props */
export function Keep({ run }) {
  const [error, setError] = useState("");
  const may = hasRight("act");
  const turn = () =>
    may &&
    ask(`runs/${encodeURIComponent(run.id)}/keep`, { method: "POST", body: { keep: !run.kept } }).then(
      () => setError(""),
      ({ message }) => setError(message),
    );
  useEffect(() => setError(""), [run.id]);
  return html`<button type="button" aria-pressed=${run.kept} aria-disabled=${!may || null}
    title=${may ? "Keep this run and its texts until the server restarts" : needsKey("Keeping a run")}
    onClick=${turn}>Keep</button>
    ${error && html`<span class="trouble" role="alert">${error}</span>`}`;
}

/** The way to the page where a call of a model is asked again. @param {{run: Run, node: Node, call:
 * import("../shared/types.js").Call | null}} props */
export const AskLink = ({ run, node, call }) =>
  call?.kind === "model" && call.body && !call.body.left_out && !run.private
    ? html`<a href=${addressOf("runs", [run.id, "ask", `${node.i}`, `${call.k}`], place.value.query)}
      title="Ask this model once more: nothing else runs">Ask again</a>`
    : null;

/** @param {{start: number | null, off: string, look: string, words: string}} props */
const Opener = ({ start, off, look, words }) =>
  html`<button type="button" class=${look} aria-disabled=${Boolean(off) || null}
    title=${off || `${start ? "From this node on" : "The whole workflow"} runs once more`}
    onClick=${() => off || (wanted.value = { start })}>${words}</button>`;

/** The window that a button of this run has opened; it stands outside of every bar of buttons. @param {{run: Run}}
 * props */
export function AgainWindow({ run }) {
  const close = () => (wanted.value = null);
  const open = wanted.value;
  const { data: code, error } = useCode(open ? "again" : "", () => import("./again.js"));
  useEffect(() => close, [run.id]);
  if (!open) return null;
  return code
    ? html`<${code.Again} run=${run} start=${open.start} close=${close} />`
    : error && html`<${Missing} error=${error} />`;
}

/** Which run this one repeats, and the way to both beside each other. @param {{run: Run}} props */
export const RepeatOf = ({ run }) =>
  run.again_of &&
  html`<span class="dim">${repeatWords(run)}: <a href=${addressOf("runs", [run.again_of.id])}>that run</a>
    ${run.path !== ASK && html` or <a href=${addressOf("compare", [run.again_of.id, run.id])}>compare</a>`}</span>`;
