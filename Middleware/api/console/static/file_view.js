// @ts-check
// One open file: its picture in the middle, its text (or Try it, or Dry run) at the right, which know of each other.
import { html, useCallback, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { useAsked } from "./asked.js";
import { checker } from "./checker.js";
import { EditorPane } from "./editor_pane.js";
import { Missing } from "./parts.js";
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

/** What the server does not tell of a file that is no workflow. */
const NO_WORKFLOW = { graph: null, last: null, kind: "", user: "" };

/** @param {{place: Place, changed: () => void}} props `changed`: the tree is to be asked for again */
export function FileView({ place, changed }) {
  const { path, user } = place;
  const { data, error, again } = /** @type {import("./asked.js").Asked<WorkflowFile>} */ (useAsked(routeOf(path), 0, isWorkflow(path) && user ? { user } : {}));
  const file = useMemo(() => data && { ...NO_WORKFLOW, ...data, path: data.path ?? path }, [data]);
  if (file) return html`<${OpenFile} file=${file} place=${place} changed=${changed} />`;
  return html`<section class="graph"><${Missing} error=${error} again=${again} /></section>`;
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
  useEffect(() => guardLeaving(file.path, draft.isUnsaved), []);
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
  const lines = good?.graph.nodes.find(({ n }) => n === chosen)?.lines ?? null;
  return html`${isWorkflow(file.path) && html`<${Picture} file=${file} checked=${checked} good=${good} times=${times} chosen=${chosen} choose=${choose} place=${place} pane=${pane} open=${setPane} />`}
    <${EditorPane} file=${file} draft=${draft} saving=${saving} hand=${hand} atLine=${atLine} chosen=${lines} pane=${pane} open=${setPane} reason=${reason} place=${place} ran=${setRan} />`;
}

/** Seconds and states of the nodes of this file: of the run that is tried, else of the last one. @param {any} run @param {WorkflowFile} file */
function timesOf(run, file) {
  if (!run) return file.last;
  const nodes = run.nodes.filter((/** @type {any} */ node) => node.workflow === file.path);
  const took = (/** @type {any} */ node) => (node.begun_s === null || node.ended_s === null ? null : node.ended_s - node.begun_s);
  return { id: run.id, at: run.at, nodes: Object.fromEntries(nodes.map((/** @type {any} */ node) => [node.number, { s: took(node), state: node.state }])) };
}

/** The text that is typed, and what the server says of it. @param {WorkflowFile} file */
function useDraft(file) {
  const [checked, setChecked] = useState(/** @type {Checked} */ ({ text: file.text, problems: file.problems, graph: file.graph, failed: "" }));
  const [good, setGood] = useState(/** @type {Good | null} */ (file.graph && { graph: file.graph, problems: file.problems }));
  const [unsaved, setUnsaved] = useState(false);
  const text = useRef(file.text);
  const base = useRef({ text: file.text, version: file.version });
  const isUnsaved = () => text.current !== base.current.text;
  const told = useCallback((/** @type {Partial<Checked> & {text: string}} */ answer) => {
    setChecked((was) => ({ ...was, failed: "", ...answer }));
    if (answer.graph) setGood({ graph: answer.graph, problems: answer.problems ?? [] });
  }, []);
  const check = useMemo(() => checker(
    (wanted) => ask("check", { method: "POST", body: { path: file.path, text: wanted, ...(file.user ? { user: file.user } : {}) } }),
    (answer, error, of) => told(answer ? { text: of, problems: answer.problems, graph: answer.graph } : { text: "", failed: error?.message ?? "" }),
  ), [file.path, file.user]);
  useEffect(() => check.stop, [check]);
  const typed = (/** @type {string} */ now) => {
    text.current = now;
    setUnsaved(isUnsaved());
    if (isWorkflow(file.path)) check.typed(now);
  };
  /** The file holds another text from now on. @param {string} now @param {string} version */
  const rebase = (now, version) => {
    base.current = { text: now, version };
    setUnsaved(isUnsaved());
  };
  return { checked, good, unsaved, isUnsaved, text, base, typed, told, rebase };
}

/**
 * @typedef {ReturnType<typeof useDraft>} Draft
 * @typedef {{sentence: string, bad: boolean}} Word
 */

/** @type {Word} */
const QUIET = { sentence: "", bad: false };

/** @param {WorkflowFile} file @param {Draft} draft @param {{current: import("./text.js").Hand | null}} hand @param {() => void} changed */
function useSaving(file, draft, hand, changed) {
  const [word, setWord] = useState(QUIET);
  const [conflict, setConflict] = useState(/** @type {{version: string, text: string, mine: string} | null} */ (null));
  const save = async (version = draft.base.current.version, text = draft.text.current) => {
    const outcome = await saved(file.path, text, version);
    if (outcome.kind === "conflict") return setConflict({ ...outcome, mine: text });
    setConflict(null);
    if (outcome.problems) draft.told({ text, problems: outcome.problems });
    if (outcome.kind === "refused") return setWord({ sentence: outcome.sentence, bad: true });
    draft.rebase(text, outcome.version);
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
  return { word, conflict, save, take, keep: () => conflict && save(conflict.version, conflict.mine), close: () => setConflict(null), quiet: () => setWord(QUIET) };
}

/** @typedef {ReturnType<typeof useSaving>} Saving */
