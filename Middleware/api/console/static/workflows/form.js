// @ts-check
// The form of the chosen node, over the document that Text holds: each change is the smallest edit of it. Ctrl+Z
// anywhere in it undoes there. Source: spec workbench.md 1.
import { html, useEffect, useId, useLayoutEffect, useMemo, useRef } from "../vendor/preact.js";
import { NOT_CALLED, stateWords } from "../endpoints/state_words.js";
import { useAsked, useTold } from "../shared/asked.js";
import { ask, state } from "../shared/server.js";
import { counted } from "../shared/words.js";
import { namesOf, variables } from "./completion.js";
import { Field } from "./form_field.js";
import { GROUPS, fieldOf, firstValue, formOf, isJson, labelOf } from "./form_model.js";
import { changeValue, insertBehind, memberOf, moveItem, quoted, removeMember, setField } from "./json_edit.js";
import { nodeHolding, nodesIn, placeAt, read } from "./json_tree.js";
import { huesOf, shownName } from "./geometry.js";
import { Chooser } from "./node_bar.js";
import { addressOf } from "./workflow_place.js";

/**
 * @typedef {import("./completion.js").Known} Known
 * @typedef {import("./completion.js").Field} FieldOfIndex
 * @typedef {import("./json_tree.js").Tree} Tree
 * @typedef {import("./json_edit.js").Change} Change
 * @typedef {import("./workflow_types.js").Problem} Problem
 * @typedef {import("../endpoints/endpoints.js").Endpoint} Endpoint
 * @typedef {{draft: import("./file_view.js").Draft, hand: {current: import("./text.js").Hand | null}, n: number | null,
 *   choose: (n: number) => void, reason: string, known: Known | null, toText: () => void,
 *   file: import("./workflow_types.js").WorkflowFile, last: import("./workflow_types.js").WorkflowFile["last"],
 *   focusOn: import("./file_view.js").FocusOn}} Props
 */

/** @param {Props} props */
export function Form(props) {
  const { draft, n, known, toText } = props;
  const text = draft.now.value;
  const endpoints = useAsked("endpoints", 30).data?.endpoints ?? [];
  const { root, good } = useMemo(() => ({ ...read(text), good: isJson(text) }), [text]);
  const node = n === null ? undefined : nodesIn(root)[n - 1];
  if (!known) return html`<p class="formword dim" role="status">loading</p>`;
  if (!good)
    return html`<${Instead} toText=${toText}>The text is not JSON at the moment, so it cannot be shown as a form.<//>`;
  if (n === null || !node) return html`<p class="formword dim">Choose a node in the picture to see its fields.</p>`;
  if (node.kind !== "object")
    return html`<${Instead} toText=${toText}>Node ${n} is not an object, so it cannot be shown as a form.<//>`;
  return html`<${NodeForm} key=${n} ...${props} n=${n} known=${known} text=${text} root=${root} node=${node}
    endpoints=${endpoints} />`;
}

/** @param {{toText: () => void, children?: unknown}} props */
const Instead = ({ toText, children }) =>
  html`<div class="formword"><p>${children}</p><button type="button" onClick=${toText}>Show the text</button></div>`;

/** @param {Props & {n: number, known: Known, text: string, root: Tree, node: Tree, endpoints: Endpoint[]}} props */
function NodeForm(props) {
  const { draft, hand, n, choose, reason, known, text, root, node, focusOn } = props;
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const caret = useRef(/** @type {number | null} */ (null));
  const { groups, rest } = useMemo(() => formOf(node, known.index), [node, known]);
  const problems = draft.checked.problems.filter((problem) => problem.node === n);
  const shown = new Set(groups.flatMap(({ fields }) => fields.map(({ field }) => field.name)));
  const others = problems.filter(({ pointer }) => !shown.has(fieldOf(pointer)));
  const hints = useHints(props, node, problems);

  /** @param {(text: string, node: Tree) => Change[]} make @param {string} [event] */
  const change = (make, event = "form") => {
    const now = draft.text.current;
    const there = nodesIn(read(now).root)[n - 1];
    if (there && !reason) hand.current?.edit([make(now, there)], event);
  };
  const edits = {
    write: (/** @type {string} */ name, /** @type {string} */ written) =>
      change((now, there) => setField(now, there, name, written), "input.type"),
    reset: (/** @type {string} */ name) =>
      change((now, there) => {
        const member = memberOf(there, name);
        return member ? removeMember(now, there, member) : [];
      }),
    within: (/** @type {string} */ name) => within(change, name),
  };
  const step = (/** @type {KeyboardEvent} */ event) => {
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || event.altKey || (key !== "z" && key !== "y")) return;
    event.preventDefault();
    event.stopPropagation();
    const at = hand.current?.back(key === "y" || event.shiftKey);
    if (at === null || at === undefined) return;
    caret.current = at;
    const holder = placed(draft.text.current, at);
    if (holder && holder.number !== n) choose(holder.number);
  };
  useLayoutEffect(() => {
    if (caret.current === null || !box.current) return;
    const at = caret.current;
    caret.current = null;
    focusAt(box.current, node, text, at);
  });
  useEffect(() => {
    if (focusOn?.n !== n) return;
    focusField(box.current, focusOn.field);
    /** @type {HTMLInputElement | null} */ (box.current?.querySelector("input:focus"))?.select();
  }, [focusOn]);
  return html`<div class="form" ref=${box} onKeyDown=${step}>
    ${others.map(({ level, message }) => html`<p class=${`fault ${level}`}>${message}</p>`)}
    ${groups.map(
      ({ name, title, fields }) => html`<section class="fields" key=${name} aria-label=${title || "What it is"}>
        ${title && html`<h3>${title}</h3>`}
        ${fields.map(
          (one) => html`<${Field} key=${one.field.name} ...${one} n=${n} text=${text} off=${reason !== ""}
            problems=${problems.filter(({ pointer }) => fieldOf(pointer) === one.field.name)} hints=${hints}
            edits=${edits} />`,
        )}</section>`,
    )}
    ${!reason && html`<${AddField} rest=${rest} add=${(/** @type {FieldOfIndex} */ field) => {
      change((now, there) => setField(now, there, field.name, firstValue(field)));
      requestAnimationFrame(() => focusField(box.current, field.name));
    }} />`}
  </div>`;
}

/**
 * Edits of the members of a list or map.
 * @param {(make: (text: string, node: Tree) => Change[], event?: string) => void} change
 * @param {string} name
 * @returns {import("./form_field.js").Within}
 */
function within(change, name) {
  const into = (/** @type {(text: string, holder: Tree) => Change[]} */ make, event = "form") =>
    change((now, there) => {
      const holder = memberOf(there, name)?.value;
      return holder ? make(now, holder) : [];
    }, event);
  return {
    set: (at, written, key) =>
      into((now, holder) => {
        const member = holder.members[at];
        if (key === undefined) return member.value ? changeValue(now, member.value, written) : [];
        const end = member.start + (/^"(?:[^"\\]|\\.)*"/.exec(now.slice(member.start))?.[0].length ?? 0);
        return [{ from: member.start, to: end, insert: quoted(key) }];
      }, "input.type"),
    add: (written) =>
      change((now, there) => {
        const holder = memberOf(there, name)?.value;
        if (holder) return insertBehind(now, holder, written);
        return setField(now, there, name, written.includes(":") ? `{${written}}` : `[${written}]`);
      }),
    out: (at) => into((now, holder) => removeMember(now, holder, holder.members[at])),
    move: (from, to) => into((now, holder) => moveItem(now, holder, from, to)),
  };
}

/** The node at a place of the text. @param {string} text @param {number} at */
function placed(text, at) {
  const place = placeAt(text, at) ?? placeAt(text, at - 1);
  return place ? nodeHolding(place.root, place.holder) : null;
}

/**
 * The box of the field that holds a place of the text, with the caret there.
 * @param {HTMLElement} box
 * @param {Tree} node
 * @param {string} text
 * @param {number} at
 */
function focusAt(box, node, text, at) {
  const member = node.members.find(({ start, end }) => start <= at && at <= end);
  if (!member?.value) return;
  const written = text.slice(member.value.start, Math.max(at, member.value.start + 1));
  const letters = (written.slice(1).match(/\\u[0-9a-fA-F]{4}|\\[^]|[^\\]/g) ?? []).length;
  focusField(box, member.key, letters);
}

/** @param {HTMLElement | null} box @param {string} name @param {number} [at] */
export function focusField(box, name, at) {
  const field = box?.querySelector(`[data-field="${CSS.escape(name)}"]`);
  const target = /** @type {any} */ (field?.querySelector(".textfield, input, select, textarea, [tabindex]"));
  if (target?.focusAt) return target.focusAt(at ?? Number.MAX_SAFE_INTEGER);
  target?.focus();
  if (at !== undefined && target?.type === "text") target.setSelectionRange(at, at);
}

/** What helps to fill fields in: names that exist, variables, and how a placeholder looks.
 * @param {Props & {n: number, known: Known, root: Tree, endpoints: Endpoint[]}} props @param {Tree} node
 * @param {Problem[]} problems */
function useHints({ draft, file, last, n, known, root, endpoints }, node, problems) {
  const graph = draft.good?.graph;
  const hues = useMemo(() => huesOf(graph?.nodes ?? []), [graph]);
  const own = graph?.nodes.find((one) => one.n === n);
  const { given, run } = useGiven(file.path, last, graph);
  const mayFill = last && run && !run.private && state.value?.rights.includes("act");
  return {
    given,
    filling: mayFill
      ? {
          ...last,
          path: file.path,
          n,
          body: () => ({
            path: file.path,
            user: file.user,
            run: last.id,
            node: n,
            ...(draft.isUnsaved() ? { text: draft.text.current } : {}),
          }),
        }
      : null,
    namesFor: (/** @type {string} */ form) => {
      const list = namesOf(form);
      return list ? (known.names[list] ?? []) : [];
    },
    index: known.index,
    page: known.index.types.find((type) => type.name === own?.type)?.page ?? "nodes/Standard",
    summaryOf: (/** @type {string} */ type) => known.index.types.find(({ name }) => name === type)?.summary ?? "",
    endpoint: own?.endpoint ?? null,
    health: healthOf(endpoints.find((one) => one.file === own?.endpoint?.file)),
    newNames: () => known.again?.(),
    endpointAddress: own?.endpoint?.file ? addressOf({ path: own.endpoint.file }) : null,
    choices: (/** @type {boolean} */ closed) =>
      variables(closed, /** @type {any} */ ({ holder: node, root }), known),
    lookOf: (/** @type {string} */ name, /** @type {string} */ field) => {
      const said = problems.filter(({ pointer }) => fieldOf(pointer) === field);
      if (said.some(({ message }) => message.includes(`{${name}}`))) return "ph-wrong";
      const source = /^agent(\d+)(?:Output|Thinking|ToolCalls|Candidates)$/.exec(name);
      const from = source && graph?.nodes.find((one) => one.n === Number(source[1]));
      const endpoint = from?.endpoint && shownName(from.endpoint);
      return endpoint ? `ph-e${hues.get(endpoint)}` : "ph-var";
    },
  };
}

/** One that no saved workflow uses has made no call. @param {Endpoint} [one] */
const healthOf = (one) => ({ state: one?.state ?? "quiet", words: one ? stateWords(one) : NOT_CALLED });

/** @typedef {ReturnType<typeof useHints>} Hints */

const OUTPUT = /^agent(\d+)Output$/;

/**
 * The last run of a file, and what an output gave in it; `words` empty: only its length is known, null: nothing is.
 * @param {string} path
 * @param {Props["last"]} last
 * @param {import("./workflow_types.js").GraphShape | undefined} graph
 */
function useGiven(path, last, graph) {
  const run = useTold(last?.id ?? "", (signal) => ask(`runs/${encodeURIComponent(last?.id ?? "")}`, { signal }));
  /** @param {string} name @returns {{words: string, length: string} | null} */
  const given = (name) => {
    const number = Number(OUTPUT.exec(name)?.[1] ?? 0);
    const now = graph?.nodes.find((node) => node.n === number);
    const ran = run.data?.nodes.find(
      (/** @type {any} */ node) => node.workflow === path && node.number === number && node.type === now?.type,
    );
    if (!ran?.output || (ran.title || ran.type) !== now?.title) return null;
    return { words: ran.output.start ?? "", length: counted(ran.output.chars, "character") };
  };
  return { given, run: run.data };
}

/**
 * Fields that are not there yet, found by name and by what they do.
 * @param {{rest: FieldOfIndex[], add: (field: FieldOfIndex) => void}} props
 */
function AddField({ rest, add }) {
  const id = useId();
  const groups = GROUPS.map(([name, title]) => ({
    title: title || "What it is",
    items: rest.filter(({ group }) => group === name),
  }));
  return html`<section class="fields addfield"><div class="field wide">
    <label class="lab" for=${id}>Add a field</label>
    <${Chooser} id=${id} label="Add a field" hint=${`${rest.length} more: by name or what it does`}
      all=${rest} groups=${groups} take=${add}
      look=${(/** @type {FieldOfIndex} */ { name }) => html`<b>${labelOf(name)}</b> <code>${name}</code>`} />
  </div></section>`;
}
