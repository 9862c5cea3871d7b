// @ts-check
// One open file: its picture in the middle, its text (or Try it, or Dry run) at the right, which know of each other.
import { isActive } from "../shared/words.js";
import { html, signal, useCallback, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { useAsked } from "../shared/asked.js";
import { checker } from "./checker.js";
import { EditorPane, useKnown } from "./editor_pane.js";
import { useUnsaved } from "../shared/place.js";
import { Missing } from "../shared/parts.js";
import { Picture } from "./picture.js";
import { ask, state } from "../shared/server.js";
import { nodeAtLine } from "./text_places.js";
import { addressOf, isWorkflow, placeOf, routeOf, whyNot } from "./workflow_place.js";

/**
 * @typedef {import("./workflow_types.js").WorkflowFile} WorkflowFile
 * @typedef {import("./workflow_types.js").Problem} Problem
 * @typedef {import("./workflow_types.js").GraphShape} GraphShape
 * @typedef {{text: string, problems: Problem[], graph: GraphShape | null, failed: string}} Checked what the server says
 *   of a text
 * @typedef {{graph: GraphShape, problems: Problem[]}} Good the last graph that could be made
 * @typedef {import("./workflow_place.js").Place} Place
 * @typedef {{n: number, field: string} | null} FocusOn the field of a node that gets the focus once it is there
 */

/** Which of Form and Text was used last. */
const TAB = "console.tab";

/** What the server does not tell of a file that is no workflow. */
const NO_WORKFLOW = { graph: null, last: null, kind: "", user: "" };

/** @param {{place: Place, changed: () => void}} props `changed`: the tree is to be asked for again */
export function FileView({ place, changed }) {
  const { path, user } = place;
  const { data, error, again } = /** @type {import("../shared/asked.js").Asked<WorkflowFile>} */ (
    useAsked(routeOf(path), 0, isWorkflow(path) && user ? { user } : {})
  );
  const file = useMemo(() => data && { ...NO_WORKFLOW, ...data, path: data.path ?? path }, [data]);
  if (file) return html`<${OpenFile} file=${file} place=${place} changed=${changed} />`;
  return html`<section class="graph"><${Missing} error=${error} again=${again} /></section>`;
}

/**
 * @typedef {{file: WorkflowFile, place: Place, draft: Draft, node: import("./workflow_types.js").GraphNode | null,
 *   pane: string, open: (pane: string) => void, tab: string, turnTo: (tab: string) => void}} View
 *   what both sides show; `node`: the one that is chosen; `tab`: `form` or `text`
 */

/** @param {{file: WorkflowFile, place: Place, changed: () => void}} props */
function OpenFile({ file, place, changed }) {
  const hand = useRef(/** @type {import("./text.js").Hand | null} */ (null));
  const draft = useDraft(file);
  const saving = useSaving(file, draft, hand, changed);
  const [chosen, setChosen] = useState(place.node);
  const [pane, setPane] = useState(place.pane);
  const [tab, setTab] = useState(localStorage.getItem(TAB) ?? "");
  const turnTo = (/** @type {string} */ name) => {
    localStorage.setItem(TAB, name);
    setTab(name);
  };
  const [ran, setRan] = useState(/** @type {import("../shared/types.js").Run | null} */ (null));
  const { good } = draft;
  useEffect(() => setPane(place.pane), [place.pane, place.run]);
  useEffect(() => void (place.node !== null && setChosen(place.node)), [place.node]);
  useUnsaved(draft.isUnsaved, (next) => next.page === "workflows" && placeOf(next).path === file.path);
  const choose = useCallback(
    (/** @type {number | null} */ n) => {
      setChosen(n);
      history.replaceState(history.state, "", addressOf({ ...place, node: n }));
    },
    [place],
  );
  const atLine = (/** @type {number} */ line) => {
    const n = good ? nodeAtLine(good.graph.nodes, line) : null;
    if (n !== chosen) choose(n);
  };
  const reason = whyNot(file, state.value?.rights ?? [], state.value?.mode ?? "view");
  const view = {
    file,
    place,
    draft,
    node: good?.graph.nodes.find(({ n }) => n === chosen) ?? null,
    pane,
    open: setPane,
    tab: isWorkflow(file.path) && tab ? tab : "text",
    turnTo,
  };
  const known = useKnown(file);
  const [focusOn, setFocusOn] = useState(/** @type {FocusOn} */ (null));
  /**
   * The first node that is chosen here opens the form.
   * @param {number} n
   * @param {string} [field] that is to be filled in
   */
  const pick = (n, field) => {
    if (!tab || field) turnTo("form");
    if (field) {
      setPane("text");
      setFocusOn({ n, field });
    }
    choose(n);
  };
  const list = { hand, n: chosen, known, reason, choose: pick, say: saving.say, fail: saving.fail };
  const times = ran ? timesIn(ran, file.path) : file.last;
  const last = ran && isActive(ran) ? file.last : times;
  return html`${isWorkflow(file.path) && html`<${Picture} ...${view} ...${list} times=${times} />`}
    <${EditorPane} ...${view} n=${chosen} last=${last} known=${known} focusOn=${focusOn} choose=${choose}
      saving=${saving}
      hand=${hand} atLine=${atLine} reason=${reason} ran=${setRan} />`;
}

/**
 * Seconds and states of a file's nodes, of the run that is tried.
 * @param {import("../shared/types.js").Run} run
 * @param {string} path
 */
function timesIn({ id, at, nodes }, path) {
  const own = nodes.filter(({ workflow }) => workflow === path);
  const times = own.map(({ number, state, begun_s: begun, ended_s: ended }) => [
    number,
    { s: begun === null || ended === null ? null : ended - begun, state },
  ]);
  return { id, at, nodes: Object.fromEntries(times) };
}

/** The text that is typed, also as a signal (`now`), and what the server says of it. @param {WorkflowFile} file */
function useDraft(file) {
  const [checked, setChecked] = useState(
    /** @type {Checked} */ ({ text: file.text, problems: file.problems, graph: file.graph, failed: "" }),
  );
  const [good, setGood] = useState(
    /** @type {Good | null} */ (file.graph && { graph: file.graph, problems: file.problems }),
  );
  const [unsaved, setUnsaved] = useState(false);
  const text = useRef(file.text);
  const [now] = useState(() => signal(file.text));
  const base = useRef({ text: file.text, version: file.version });
  const isUnsaved = () => text.current !== base.current.text;
  const told = useCallback((/** @type {Partial<Checked> & {text: string}} */ answer) => {
    setChecked((was) => ({ ...was, failed: "", ...answer }));
    if (answer.graph) setGood({ graph: answer.graph, problems: answer.problems ?? [] });
  }, []);
  /** What the server says of another text. @param {string} wanted */
  const judge = (wanted) =>
    ask("check", {
      method: "POST",
      body: { path: file.path, text: wanted, ...(file.user ? { user: file.user } : {}) },
    });
  const check = useMemo(
    () =>
      checker(judge, (answer, error, of) =>
        told(
          answer
            ? { text: of, problems: answer.problems, graph: answer.graph }
            : { text: "", failed: error?.message ?? "" },
        ),
      ),
    [file.path, file.user],
  );
  useEffect(() => check.stop, [check]);
  const typed = (/** @type {string} */ words) => {
    text.current = words;
    now.value = words;
    setUnsaved(isUnsaved());
    if (isWorkflow(file.path)) check.typed(words);
  };
  /** The file holds another text from now on. @param {string} words @param {string} version */
  const rebase = (words, version) => {
    base.current = { text: words, version };
    setUnsaved(isUnsaved());
  };
  return { checked, good, unsaved, isUnsaved, text, now, base, judge, typed, told, rebase };
}

/** @typedef {ReturnType<typeof useDraft>} Draft */

/**
 * @param {WorkflowFile} file
 * @param {Draft} draft
 * @param {{current: import("./text.js").Hand | null}} hand
 * @param {() => void} changed
 */
function useSaving(file, draft, hand, changed) {
  const [word, tell] = useState({ said: "", failed: "" });
  const [conflict, setConflict] = useState(/** @type {{version: string, text: string, mine: string} | null} */ (null));
  const say = (/** @type {string} */ said) => tell({ said, failed: "" });
  const fail = (/** @type {string} */ failed) => tell({ said: "", failed });
  /** Whether it was saved; else why not is told. */
  const save = async (version = draft.base.current.version, text = draft.text.current) => {
    try {
      const told = await ask(routeOf(file.path), { method: "PUT", body: { text, version } });
      setConflict(null);
      draft.rebase(text, told.version);
      draft.told({ text, problems: told.problems });
      say("Saved.");
      changed();
      return true;
    } catch (reason) {
      const { status, message, data = {} } = /** @type {Error & {status?: number, data?: any}} */ (reason);
      if (status === 409 && typeof data.text === "string") {
        setConflict({ version: data.version, text: data.text, mine: text });
        return false;
      }
      setConflict(null);
      if (data.problems) draft.told({ text, problems: data.problems });
      fail(message);
      return false;
    }
  };
  const take = () => {
    if (!conflict) return;
    draft.rebase(conflict.text, conflict.version);
    hand.current?.set(conflict.text);
    setConflict(null);
    say("The text of the file was loaded.");
  };
  return {
    word,
    say,
    fail,
    conflict,
    save,
    take,
    keep: () => conflict && save(conflict.version, conflict.mine),
    close: () => setConflict(null),
  };
}

/** @typedef {ReturnType<typeof useSaving>} Saving */
