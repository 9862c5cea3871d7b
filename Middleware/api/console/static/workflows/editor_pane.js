// @ts-check
// The right of Workflows: the text with its bar and its list of problems; Try it and Dry run in its place.
import { html, useEffect, useState } from "../vendor/preact.js";
import { useAsked } from "../shared/asked.js";
import { Divider, DryRun } from "./panes.js";
import { keptSwitch } from "../shared/kept.js";
import { TabList } from "../shared/parts.js";
import { useKeys } from "../shared/keys.js";
import { lineOf } from "./text_places.js";
import { isWorkflow, kindOf } from "./workflow_place.js";

/**
 * @typedef {import("./workflow_types.js").WorkflowFile} WorkflowFile
 * @typedef {import("./workflow_types.js").Problem} Problem
 * @typedef {import("./completion.js").Known} Known
 * @typedef {import("./file_view.js").View & {saving: import("./file_view.js").Saving, hand: {current:
 *   import("./text.js").Hand | null},
 *   n: number | null, last: WorkflowFile["last"], choose: (n: number) => void, known: Known | null,
 *   focusOn: import("./file_view.js").FocusOn,
 *   atLine: (line: number) => void, reason: string, ran: (run: any) => void}} Props
 */

/** Two sides of one document. */
const TABS = [
  { name: "form", title: "Form" },
  { name: "text", title: "Text" },
];
/** Whether lines of the text are wrapped. */
const [wrapping, turnWrapping] = keptSwitch("console.wrap", "off");

/** @param {Props} props */
export function EditorPane(props) {
  const { file, draft, saving, hand, pane, open, place, ran, reason, tab, known } = props;
  const { conflict } = saving;
  const { TextEditor } = useLoaded(() => import("./text.js"));
  const [looksBack, lookBack] = useState(false);
  const { Conflict, Earlier } = useLoaded(() => import("./two_texts.js"), conflict !== null || looksBack);
  const { Form } = useLoaded(() => import("./form.js"), tab === "form" && pane !== "dry");
  const { TryIt } = useLoaded(() => import("./try.js"), pane === "try");
  const restore = async (/** @type {string} */ text) => {
    if (await saving.save(draft.base.current.version, text)) {
      hand.current?.set(text);
      lookBack(false);
    }
  };
  const aside = { path: file.path, user: file.user, close: () => open("text") };
  useKeys({ F8: () => hand.current?.next(), "Ctrl+s": () => reason || saving.save() });
  return html`<div class=${`beside ${isWorkflow(file.path) ? "" : "alone"}`}>
    ${isWorkflow(file.path) && html`<${Divider} label="Size of the text" of=".three" />`}
    <section class="editor" aria-label=${tab === "form" ? "Form" : "Text"} hidden=${pane === "dry"}>
      <${Bar} ...${props} lookBack=${() => lookBack(!looksBack)} />
      ${conflict && Conflict && html`<${Conflict} theirs=${conflict.text} mine=${conflict.mine} keep=${saving.keep}
        take=${saving.take} close=${saving.close} />`}
      ${looksBack && !conflict && Earlier && html`<${Earlier} path=${file.path} now=${draft.text.current}
        reason=${reason} restore=${restore} close=${() => lookBack(false)} />`}
      ${tab === "form" && !conflict && !looksBack && html`<div class="formpart">${Form ? html`<${Form} draft=${draft}
        hand=${hand} n=${props.n} choose=${props.choose} reason=${reason} known=${known} file=${file}
        last=${props.last}
        focusOn=${props.focusOn}
        toText=${() => props.turnTo("text")} />` : html`<p class="formword dim" role="status">loading</p>`}</div>`}
      <div class="textpart" hidden=${conflict !== null || looksBack || tab === "form"}>
        ${TextEditor ? html`<${Written} ...${props} Editor=${TextEditor} />`
          : html`<pre class="code plain">
        ${file.text}</pre>`}
      </div>
      ${!conflict && !looksBack && tab === "text" && html`<${Problems} draft=${draft}
        go=${(/** @type {Problem} */ problem) => hand.current?.go(problem)} />`}
    </section>
    ${pane === "try" && TryIt && html`<${Divider} label="Height of the text" />
      <${TryIt} ...${aside} from=${place.run} unsaved=${draft.unsaved} ran=${ran} />`}
    ${pane === "dry" && html`<${DryRun} ...${aside} unsaved=${() => (draft.isUnsaved() ? draft.text.current
      : undefined)} />`}
  </div>`;
}

/**
 * A part that weighs more, loaded when it is wanted.
 * @template {object} T
 * @param {() => Promise<T>} load
 * @param {boolean} [wanted]
 * @returns {Partial<T>}
 */
export function useLoaded(load, wanted = true) {
  const [part, setPart] = useState(/** @type {Partial<T>} */ ({}));
  useEffect(() => void (wanted && load().then(setPart)), [wanted]);
  return part;
}

/** @param {Props & {lookBack: () => void}} props */
function Bar({ file, draft, saving, hand, reason, lookBack, tab, turnTo }) {
  const lay = () =>
    hand.current?.format() === false && saving.fail("The brackets do not match, so the text cannot be laid out.");
  const { said, failed } = saving.word;
  const bad = failed || (draft.checked.failed && `The text could not be checked: ${draft.checked.failed}`);
  return html`<div class="edbar"><${isWorkflow(file.path) ? "h2" : "h1"} class="path" title=${file.path}>
      ${tab === "form" ? file.path.split("/").at(-1) : file.path}<//>
      ${isWorkflow(file.path) && html`<${TabList} look="seg" label="Form or text" tabs=${TABS} chosen=${tab}
        choose=${turnTo} />`}
      <span class="dim" role="status">${draft.unsaved ? "not saved" : said}</span>
      ${isWorkflow(file.path) && html`<button type="button" onClick=${lookBack}>Earlier</button>`}
      ${tab === "text" && html`<button type="button" aria-pressed=${wrapping.value}
        onClick=${turnWrapping}>Wrap</button>
        <button type="button" disabled=${reason !== ""} onClick=${lay}>Format</button>`}
      <button type="button" class="main" disabled=${reason !== "" || !draft.unsaved} aria-describedby=${reason
        ? "whynot" : null} onClick=${() => saving.save()}>Save</button></div>
    ${reason && html`<p class="strip" id="whynot"><b>Read only.</b> ${reason}</p>`}
    ${bad && html`<p class="edword bad" role="alert">${bad}</p>`}`;
}

/** @param {Props & {Editor: unknown}} props */
function Written({ file, draft, node, saving, hand, atLine, reason, known, Editor }) {
  const typed = (/** @type {string} */ text) => {
    draft.typed(text);
    saving.say("");
  };
  const help = (/** @type {string} */ page) => void (location.hash = `#/help${page && `/${page}`}`);
  return html`<${Editor} text=${file.text} problems=${draft.checked.problems} checked=${draft.checked.text}
    wraps=${wrapping.value} writable=${reason === ""} label=${`Text of ${file.path}`}
    known=${known} chosen=${node?.lines ?? null} typed=${typed} atLine=${atLine} help=${help} hand=${hand} />`;
}

/** The index of Help and the names that exist. @param {WorkflowFile} file @returns {Known | null} */
export function useKnown({ path, user }) {
  const help = /** @type {import("../shared/asked.js").Asked<import("./completion.js").Index>} */ (useAsked("help"));
  const names = /** @type {import("../shared/asked.js").Asked<import("./completion.js").Names>} */ (
    useAsked("names", 0, user ? { user, path } : { path })
  );
  return help.data && (names.data || names.error)
    ? { kind: kindOf(path), index: help.data, names: names.data ?? {}, again: names.again }
    : null;
}

/** @param {{draft: import("./file_view.js").Draft, go: (problem: Problem) => void}} props */
function Problems({ draft, go }) {
  const { problems } = draft.checked;
  const titleOf = (/** @type {number} */ n) => draft.good?.graph.nodes.find((node) => node.n === n)?.title;
  if (!problems.length) return null;
  return html`<ul class="probs" role="list" aria-label="Problems">${problems.map((problem) => {
    const { at, where, message } = lineOf(problem, titleOf);
    return html`<li><button type="button" class=${`problem ${problem.level}`} onClick=${() => go(problem)}>
      <span class="at">${at}</span> <span class="unseen">${problem.level}: </span>${where && html`<span class="dim">
      ${where}: </span>`}${message}</button></li>`;
  })}</ul>`;
}
