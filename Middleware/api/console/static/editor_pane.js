// @ts-check
// The right of Workflows: the text with its bar and its list of problems; Try it and Dry run in its place.
import { html, useEffect, useState } from "./vendor/preact.js";
import { DryRun } from "./dry.js";
import { ask } from "./server.js";
import { lineOf } from "./text_places.js";
import { kindOf } from "./workflow_place.js";

/**
 * @typedef {import("./workflow_types.js").WorkflowFile} WorkflowFile
 * @typedef {import("./workflow_types.js").Problem} Problem
 * @typedef {import("./completion.js").Known} Known
 * @typedef {{file: WorkflowFile, draft: import("./file_view.js").Draft, saving: import("./file_view.js").Saving, hand: {current: import("./text.js").Hand | null},
 *   atLine: (line: number) => void, chosen: [number, number] | null, pane: string, open: (pane: string) => void, reason: string, place: import("./workflow_place.js").Place,
 *   ran: (run: any) => void, alone: boolean}} Props
 */

/** @param {Props} props */
export function EditorPane(props) {
  const { file, draft, saving, hand, pane, open, place, ran, alone } = props;
  const { Editor, Conflict, TryIt } = useLoaded(pane, saving.conflict !== null);
  const shows = pane === "text" || !["try", "dry"].includes(pane);
  const unsaved = () => (draft.dirty.current ? (hand.current?.text() ?? null) : null);
  useKeys(hand, () => saving.save(), props.reason === "");
  return html`<div class=${`beside ${alone ? "alone" : ""}`}>
    <section class="editor" aria-label="Text" hidden=${!shows}>
      <${Bar} ...${props} />
      ${saving.conflict && Conflict && html`<${Conflict} theirs=${saving.conflict.text} mine=${saving.conflict.mine} keep=${saving.keep} take=${saving.take} close=${saving.close} />`}
      <div class="textpart" hidden=${saving.conflict !== null}>
        ${Editor ? html`<${Written} ...${props} Editor=${Editor} />` : html`<pre class="code plain">${file.text}</pre>`}
      </div>
      ${!saving.conflict && html`<${Problems} file=${file} draft=${draft} go=${(/** @type {Problem} */ problem) => hand.current?.go(problem)} />`}
    </section>
    ${pane === "try" && TryIt && html`<${TryIt} path=${file.path} user=${file.user} from=${place.run} unsaved=${draft.unsaved} ran=${ran} close=${() => open("text")} />`}
    ${pane === "dry" && html`<${DryRun} path=${file.path} user=${file.user} unsaved=${unsaved} close=${() => open("text")} />`}
  </div>`;
}

/** The parts that weigh more, loaded when they are wanted. @param {string} pane @param {boolean} conflict @returns {Record<string, any>} */
function useLoaded(pane, conflict) {
  const [parts, setParts] = useState(/** @type {Record<string, any>} */ ({}));
  const keep = (/** @type {Record<string, any>} */ more) => setParts((was) => ({ ...was, ...more }));
  useEffect(() => void import("./text.js").then(({ TextEditor }) => keep({ Editor: TextEditor })), []);
  useEffect(() => void (conflict && import("./conflict.js").then(({ Conflict }) => keep({ Conflict }))), [conflict]);
  useEffect(() => void (pane === "try" && import("./try.js").then(({ TryIt }) => keep({ TryIt }))), [pane]);
  return parts;
}

/** @param {Props} props */
function Bar({ file, draft, saving, hand, reason, alone }) {
  const [format, setFormat] = useState("");
  const lay = () => setFormat(hand.current?.format() === false ? "The brackets do not fit together: there is nothing to lay out." : "");
  const { word } = saving;
  return html`<div class="edbar">${alone ? html`<h1 class="path">${file.path}</h1>` : html`<h2 class="path">${file.path}</h2>`}
      <span class="dim" role="status">${draft.unsaved ? "not saved" : word.bad ? "" : word.sentence}</span>
      <button type="button" disabled=${reason !== ""} onClick=${lay}>Format</button>
      <button type="button" class="main" disabled=${reason !== "" || !draft.unsaved} aria-describedby=${reason ? "whynot" : undefined} onClick=${() => saving.save()}>Save</button></div>
    ${reason && html`<p class="edword dim" id="whynot">${reason}</p>`}
    ${(format || word.bad || draft.checked.failed) && html`<p class="edword bad" role="alert">${format || (word.bad && word.sentence) || `The text could not be checked: ${draft.checked.failed}`}</p>`}`;
}

/** @param {Props & {Editor: unknown}} props */
function Written({ file, draft, saving, hand, atLine, chosen, reason, Editor }) {
  const known = useKnown(file);
  const typed = (/** @type {string} */ text) => {
    draft.typed(text);
    saving.quiet();
  };
  const help = (/** @type {string} */ page) => void (location.hash = `#/help${page && `/${page}`}`);
  return html`<${Editor} text=${file.text} problems=${draft.checked.problems} checked=${draft.checked.text} writable=${reason === ""} label=${`Text of ${file.path}`}
    known=${known} chosen=${chosen} typed=${typed} atLine=${atLine} help=${help} hand=${hand} />`;
}

/** The index of Help and the names that exist. @param {WorkflowFile} file @returns {Known | null} */
function useKnown({ path, user }) {
  const [known, setKnown] = useState(/** @type {Known | null} */ (null));
  useEffect(() => {
    const stop = new AbortController();
    const names = ask("names", { query: user ? { user, path } : { path }, signal: stop.signal }).catch(() => ({}));
    Promise.all([ask("help", { signal: stop.signal }), names]).then(
      ([index, found]) => setKnown({ kind: kindOf(path), index, names: found }),
      () => setKnown(null),
    );
    return () => stop.abort();
  }, [path, user]);
  return known;
}

/** @param {{file: WorkflowFile, draft: import("./file_view.js").Draft, go: (problem: Problem) => void}} props */
function Problems({ draft, go }) {
  const { problems } = draft.checked;
  const titleOf = (/** @type {number} */ n) => draft.good?.graph.nodes.find((node) => node.n === n)?.title;
  if (!problems.length) return null;
  return html`<ul class="probs" role="list" aria-label="Problems">${problems.map((problem) => {
    const { at, where, message } = lineOf(problem, titleOf);
    return html`<li><button type="button" class=${`problem ${problem.level}`} onClick=${() => go(problem)}>
      <span class="at">${at}</span> <span class="unseen">${problem.level}: </span>${where && html`<span class="dim">${where}: </span>`}${message}</button></li>`;
  })}</ul>`;
}

/** F8 and Ctrl+S work wherever the focus is. @param {{current: import("./text.js").Hand | null}} hand @param {() => void} save @param {boolean} maySave */
function useKeys(hand, save, maySave) {
  useEffect(() => {
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      if (event.defaultPrevented) return;
      const saves = event.key === "s" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
      if (!saves && event.key !== "F8") return;
      event.preventDefault();
      if (!saves) hand.current?.next();
      else if (maySave) save();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}
