// @ts-check
// One open file: its picture in the middle, its text (or Try it, or Dry run) at the right, which know of each other.
import { html, useCallback, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { checker } from "./checker.js";
import { EditorPane } from "./editor_pane.js";
import { Failed, Loading } from "./parts.js";
import { Picture } from "./picture.js";
import { guardLeaving, routeOf, saved, whyNot } from "./saving.js";
import { ask, state } from "./server.js";
import { nodeAtLine } from "./text_places.js";
import { addressOf, isWorkflow } from "./workflow_place.js";

/**
 * @typedef {import("./workflow_types.js").WorkflowFile} WorkflowFile
 * @typedef {import("./workflow_types.js").Problem} Problem
 * @typedef {import("./workflow_types.js").GraphShape} GraphShape
 * @typedef {{text: string, problems: Problem[], graph: GraphShape | null, failed: string}} Checked what the server says of a text
 * @typedef {{graph: GraphShape, problems: Problem[]}} Good the last graph that could be made
 * @typedef {import("./workflow_place.js").Place} Place
 */

/** @param {{place: Place, changed: () => void}} props `changed`: the tree is to be asked for again */
export function FileView({ place, changed }) {
  const { file, error, again } = useFile(place);
  if (error && !file) return html`<section class="graph"><${Failed} error=${error} again=${again} /></section>`;
  if (!file) return html`<section class="graph"><${Loading} /></section>`;
  return html`<${OpenFile} file=${file} place=${place} changed=${changed} />`;
}

/** @param {Place} place */
function useFile(place) {
  const [told, tell] = useState(/** @type {{file: WorkflowFile | null, error: Error | null}} */ ({ file: null, error: null }));
  const again = useCallback(() => {
    const query = new URLSearchParams(isWorkflow(place.path) && place.user ? { user: place.user } : {});
    ask(routeOf(place.path), { query }).then((file) => tell({ file: { path: place.path, graph: null, last: null, kind: "", user: "", ...file }, error: null }), (error) => tell((was) => ({ ...was, error })));
  }, [place.path, place.user]);
  useEffect(again, [again]);
  return { ...told, again };
}

/** @param {{file: WorkflowFile, place: Place, changed: () => void}} props */
function OpenFile({ file, place, changed }) {
  const hand = useRef(/** @type {import("./text.js").Hand | null} */ (null));
  const draft = useDraft(file);
  const saving = useSaving(file, draft, hand, changed);
  const [chosen, setChosen] = useState(place.node);
  const [pane, setPane] = useState(place.pane);
  const [ran, setRan] = useState(/** @type {any} */ (null));
  const { checked, good } = draft;
  useEffect(() => setPane(place.pane), [place.pane, place.run]);
  useEffect(() => void (place.node !== null && setChosen(place.node)), [place.node]);
  useEffect(() => guardLeaving(file.path, () => draft.dirty.current), []);
  const choose = useCallback((/** @type {number | null} */ n) => {
    setChosen(n);
    history.replaceState(history.state, "", addressOf({ ...place, node: n }));
  }, [place]);
  const atLine = (/** @type {number} */ line) => {
    const n = good ? nodeAtLine(good.graph.nodes, line) : null;
    if (n !== chosen) choose(n);
  };
  const times = useMemo(() => timesOf(ran, file), [ran, file]);
  const reason = whyNot(file, state.value?.rights ?? [], state.value?.mode ?? "view");
  return html`${isWorkflow(file.path) && html`<${Picture} file=${file} checked=${checked} good=${good} times=${times} chosen=${chosen} choose=${choose} place=${place} pane=${pane} open=${setPane} />`}
    <${EditorPane} file=${file} draft=${draft} saving=${saving} hand=${hand} atLine=${atLine} chosen=${linesOf(good?.graph, chosen)} pane=${pane} open=${setPane} reason=${reason}
      place=${place} ran=${setRan} alone=${!isWorkflow(file.path)} />`;
}

/** @param {GraphShape | undefined} graph @param {number | null} n */
const linesOf = (graph, n) => graph?.nodes.find((node) => node.n === n)?.lines ?? null;

/** Seconds and states of the nodes of this file: of the run that is tried, else of the last one. @param {any} run @param {WorkflowFile} file */
function timesOf(run, file) {
  if (!run) return file.last && { id: file.last.id, at: file.last.at, nodes: file.last.nodes };
  const nodes = run.nodes.filter((/** @type {any} */ node) => node.workflow === file.path);
  const took = (/** @type {any} */ node) => (node.begun_s === null || node.ended_s === null ? null : node.ended_s - node.begun_s);
  return { id: run.id, at: run.at, nodes: Object.fromEntries(nodes.map((/** @type {any} */ node) => [node.number, { s: took(node), state: node.state }])) };
}

/** The text that is typed, and what the server says of it. @param {WorkflowFile} file */
function useDraft(file) {
  const [checked, setChecked] = useState(/** @type {Checked} */ ({ text: file.text, problems: file.problems, graph: file.graph, failed: "" }));
  const [good, setGood] = useState(/** @type {Good | null} */ (file.graph && { graph: file.graph, problems: file.problems }));
  const [dirty, setDirty] = useState(false);
  const isDirty = useRef(false);
  const base = useRef({ text: file.text, version: file.version });
  const told = useCallback((/** @type {Partial<Checked> & {text: string}} */ answer) => {
    setChecked((was) => ({ ...was, failed: "", ...answer }));
    if (answer.graph) setGood({ graph: answer.graph, problems: answer.problems ?? [] });
  }, []);
  const check = useMemo(() => checker(
    (text) => ask("check", { method: "POST", body: { path: file.path, text, ...(file.user ? { user: file.user } : {}) } }),
    (answer, error, text) => told(answer ? { text, problems: answer.problems, graph: answer.graph } : { text: "", failed: error?.message ?? "" }),
  ), [file.path, file.user]);
  useEffect(() => check.stop, [check]);
  const mark = (/** @type {boolean} */ now) => {
    isDirty.current = now;
    setDirty(now);
  };
  const typed = (/** @type {string} */ text) => {
    mark(text !== base.current.text);
    if (isWorkflow(file.path)) check.typed(text);
  };
  const rebase = (/** @type {string} */ text, /** @type {string} */ version) => {
    base.current = { text, version };
    mark(false);
  };
  return { checked, good, dirty: isDirty, unsaved: dirty, base, typed, told, rebase };
}

/**
 * @typedef {ReturnType<typeof useDraft>} Draft
 * @typedef {{sentence: string, bad: boolean}} Word
 */

/** @param {WorkflowFile} file @param {Draft} draft @param {{current: import("./text.js").Hand | null}} hand @param {() => void} changed */
function useSaving(file, draft, hand, changed) {
  const [word, setWord] = useState(/** @type {Word} */ ({ sentence: "", bad: false }));
  const [conflict, setConflict] = useState(/** @type {{version: string, text: string, mine: string} | null} */ (null));
  const save = async (version = draft.base.current.version, text = hand.current?.text() ?? "") => {
    const outcome = await saved(file.path, text, version);
    if (outcome.kind === "conflict") return setConflict({ ...outcome, mine: text });
    setConflict(null);
    if (outcome.kind === "refused") {
      if (outcome.problems) draft.told({ text, problems: outcome.problems });
      return setWord({ sentence: outcome.sentence, bad: true });
    }
    draft.rebase(text, outcome.version);
    draft.typed(hand.current?.text() ?? text);
    draft.told({ text, problems: outcome.problems });
    setWord({ sentence: "Saved.", bad: false });
    changed();
  };
  const take = () => {
    if (!conflict) return;
    draft.rebase(conflict.text, conflict.version);
    hand.current?.set(conflict.text);
    setConflict(null);
    setWord({ sentence: "The text of the file was taken.", bad: false });
  };
  return { word, conflict, save, take, keep: () => conflict && save(conflict.version, conflict.mine), close: () => setConflict(null), quiet: () => setWord({ sentence: "", bad: false }) };
}

/** @typedef {ReturnType<typeof useSaving>} Saving */
