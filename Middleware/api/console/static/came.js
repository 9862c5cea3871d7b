// @ts-check
// The tab "Came": what the model said, and what each rule took away from it.
import { html, useEffect, useMemo, useState } from "./vendor/preact.js";
import { piecesOf } from "./cleaning.js";
import { Failed, Loading } from "./parts.js";
import { ask } from "./server.js";
import { TextBox, Whole, useText } from "./texts.js";
import { counted, number } from "./words.js";

/** @typedef {import("./types.js").Call} Call @typedef {import("./types.js").Run} Run */
/** @typedef {{agrees: boolean, steps: {rule: string, text: string}[]}} Steps */

/** @param {{run: Run, node: import("./types.js").Node, call: Call | null, none: string}} props */
export function Came({ run, node, call, none }) {
  const [view, setView] = useState("both");
  const raw = useText(run.id, call?.raw ?? null);
  const cleaned = useText(run.id, call?.cleaned ?? null);
  const said = raw.text ? raw.text.head + raw.text.tail : "";
  const beside = (call?.thoughts.length ? call.thoughts : node.thoughts).filter(({ start }) => !start || !said.includes(start.trim()));
  if (!call) return html`<p class="dim">This node asked no model and no other server.</p>`;
  const boxes = beside.map((one, at) => html`<div key=${one.ref} class="msg thought"><h2>Thoughts that came beside the text<span>${counted(one.chars, "character")}</span></h2><${TextBox} id=${run.id} reference=${one} none=${none} /></div>`);
  if (!call.raw) return html`${boxes}${call.error && html`<p class="notes bad">${call.error}</p>`}<p class="dim">${call.ended_s === null && !run.private ? "Nothing is here yet: the raw text is told when the call has ended." : call.error ? "Nothing came." : none}</p>`;
  if (raw.error && !raw.text) return html`<${Failed} error=${raw.error} again=${raw.again} />`;
  if (!raw.text || (call.cleaned && !cleaned.text && !cleaned.error)) return html`<${Loading} rows=${4} />`;
  const counts = call.cleaned ? `${number(call.raw.chars)} in, ${number(call.cleaned.chars)} out (characters)` : counted(call.raw.chars, "character");
  const shown = call.cleaned ? view : "raw";
  return html`<div class="switches" role="group" aria-label="What is shown">${call.cleaned && ["both", "raw", "cleaned"].map((name) => html`<button type="button" aria-pressed=${String(name === shown)} onClick=${() => setView(name)}>${name}</button>`)}
      <span class="dim">${counts}</span></div>
    ${boxes}
    <div class="msg assistant">${shown === "both" && cleaned.text ? html`<${Both} run=${run} node=${node} call=${call} raw=${raw.text} cleaned=${cleaned.text} />` : html`<${Whole} text=${(shown === "raw" ? raw.text : cleaned.text) ?? raw.text} />`}</div>
    ${call.error && html`<p class="notes bad">${call.error}</p>`}`;
}

/** @param {{run: Run, node: import("./types.js").Node, call: Call, raw: import("./types.js").Text, cleaned: import("./types.js").Text}} props */
function Both({ run, node, call, raw, cleaned }) {
  const same = raw.head === cleaned.head && raw.tail === cleaned.tail && raw.chars === cleaned.chars;
  const cut = raw.left_out > 0 || cleaned.left_out > 0;
  const { pieces, named, error } = usePieces(run, node, call, same || cut ? null : raw.head, cleaned.head);
  if (same || cut) return html`<h2>What the model said<span>${same ? "nothing was taken away" : ""}</span></h2>${cut && !same && html`<p class="dim pad">Too long to show what was taken away: raw and cleaned show the parts that are kept.</p>`}<${Whole} text=${raw} />`;
  if (error) return html`<${Failed} error=${error} />`;
  if (!pieces) return html`<${Loading} rows=${4} />`;
  return html`<h2>What the model said, and what was taken away<span>${named ? "" : "the rules that did it are not known here"}</span></h2>
    <pre tabindex="0">${pieces.map(({ text, kind, rule }, at) => {
      const by = rule && (pieces[at + 1]?.rule !== rule || pieces[at + 1]?.kind === "kept") ? html`<a class="by" href=${`#/help/rules/${encodeURIComponent(rule)}`}>${rule}</a>` : "";
      if (kind === "gone") return html`<del class=${text.trim() ? "" : "space"}>${visible(text)}</del>${by}`;
      return kind === "added" ? html`<ins>${text}</ins>${by}` : text;
    })}</pre>`;
}

/** Line ends alone could not be seen struck through. @param {string} text */
const visible = (text) => (/^\s+$/.test(text) ? text.replace(/\r?\n/g, "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣") : text);

/** @param {Run} run @param {import("./types.js").Node} node @param {Call} call @param {string | null} raw null: nothing to find @param {string} cleaned */
function usePieces(run, node, call, raw, cleaned) {
  const [found, setFound] = useState(/** @type {{of: string, steps: Steps | null, differ: any, error: Error | null}} */ ({ of: "", steps: null, differ: null, error: null }));
  const of = raw === null ? "" : `${run.id}/${node.i}/${call.k}/${raw.length}/${cleaned.length}`;
  useEffect(() => {
    if (!of) return;
    let here = true;
    const steps = call.has_cleaning ? ask(`runs/${encodeURIComponent(run.id)}/nodes/${node.i}/calls/${call.k}/cleaning`) : Promise.resolve({ agrees: false, steps: [] });
    Promise.all([steps, import("./vendor/diff.js")]).then(
      ([told, { diffWordsWithSpace }]) => here && setFound({ of, steps: told, differ: diffWordsWithSpace, error: null }),
      (error) => here && setFound({ of, steps: null, differ: null, error }),
    );
    return () => void (here = false);
  }, [of]);
  return useMemo(() => {
    const mine = found.of === of && found.steps && raw !== null;
    if (!mine || !found.steps) return { pieces: null, named: false, error: found.of === of ? found.error : null };
    const named = found.steps.agrees && found.steps.steps.length > 0;
    return { pieces: piecesOf(raw, named ? found.steps.steps : [{ rule: "", text: cleaned }], found.differ), named, error: null };
  }, [found, of, raw, cleaned]);
}
