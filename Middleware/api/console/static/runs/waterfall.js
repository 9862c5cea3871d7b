// @ts-check
// When each node of a run did what: a list of rows, each a button, over one axis of time.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { useNow } from "../shared/asked.js";
import { MOST_CALLS, above, allCallsBars, barsOf, callBars, endOf, rowsOf, spanWords, tickWords,
  ticks } from "./fall_scale.js";
import { hueOf } from "../shared/names.js";
import { step, useKeys, useOneStop } from "../shared/keys.js";
import { Mark } from "../shared/parts.js";
import { grown } from "./run_list.js";
import { PARTS, counted, isActive, listed, seconds, stateWords } from "../shared/words.js";

/**
 * @typedef {import("../shared/types.js").Run} Run
 * @typedef {import("../shared/types.js").Node} Node
 * @typedef {import("./fall_scale.js").Shown} Shown
 * @typedef {import("./fall_scale.js").Bar} Bar
 * @typedef {{from: number, to: number}} Span
 */

const LEGEND = /** @type {const} */ (["queue", "other", "load", "first", "think", "say", "after", "prefill"]);
const SLOT_S = 0.01;

/** @param {{run: Run, chosen: Shown, call?: number, choose: (what: Shown, call?: number) => void,
 *   ends?: boolean}} props `ends`: what the client sent and got have their rows */
export function Waterfall({ run, chosen, call = 0, choose, ends = true }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [zoom, setZoom] = useState(/** @type {Span | null} */ (null));
  const [open, setOpen] = useState(/** @type {ReadonlySet<number | string>} */ (new Set()));
  const { took_s: now, shape } = grown(run, useNow(isActive(run)));
  const span = zoom ?? { from: 0, to: endOf(run, now) };
  useKeys({ 0: () => zoom !== null && setZoom(null) });
  const active = isActive(run);
  useEffect(() => {
    const folds = active || typeof chosen !== "number" ? [] : above(run.nodes, chosen);
    if (folds.some((i) => !open.has(i))) setOpen(new Set([...open, ...folds]));
  }, [chosen, active]);
  useOneStop(box, "button.fallrow, .foldline button", false);
  useEffect(() => {
    // Where the whole page scrolls, the details are what is wanted.
    const fall = box.current?.parentElement;
    if (fall && fall.scrollHeight > fall.clientHeight)
      fall.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }, [chosen, call]);
  const [begin] = shape;
  const slot = begin?.[0] === "queue" && begin[1] >= SLOT_S ? begin[1] : 0;
  const rows = rowsOf(run.nodes, open);
  const marks = ticks(span.from, span.to);
  const grid = {
    "--grid": marks.at
      .map((at) => `linear-gradient(var(--line), var(--line)) ${percent(at, span)} 0 / 1px 100% no-repeat`)
      .join(", "),
  };
  const kinds = new Set(
    rows.flatMap((row) =>
      row.type === "node"
        ? barsOf(row.node, run, now).map(({ kind }) => kind)
        : row.type === "call" && row.call.kind === "prefill"
          ? ["prefill"]
          : [],
    ),
  );
  if (slot) kinds.add("queue");
  const turnFold = (/** @type {number | string} */ i) =>
    setOpen(new Set([...open, i].filter((one) => one !== i || !open.has(i))));
  const calls = run.nodes.reduce((sum, node) => sum + node.calls.length, 0);
  const answer =
    ends &&
    run.state !== "waiting" &&
    html`<${EndRow} key="answer" sign="←" name="Answer" words=${answerWords(run)}
    chosen=${chosen === "answer"} choose=${() => choose("answer")} />`;
  const move = (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && step(".fall :is(button.fallrow, .foldline button)", by)) event.preventDefault();
  };
  return html`<section class="fall" aria-label="Time by node" data-pane>
    <${Axis} marks=${marks} span=${span} zoomed=${zoom !== null} setZoom=${setZoom}
      label=${run.nodes.length > 0 && listed(counted(run.nodes.length, "node"), counted(calls, "call"))} />
    <ol class="fallrows" style=${grid} onKeyDown=${move} ref=${box}>
      ${ends && html`<${EndRow} sign="→" name="Request"
        words=${run.asked ? counted(run.asked.chars, "character") : ""} chosen=${chosen === "request"}
        choose=${() => choose("request")} />`}
      ${
        slot > 0 &&
        html`<li class="fallrow slot"><span class="lab"><span class="t dim">waiting for a slot</span>
      </span><${Track} bars=${[{ kind: "queue", from: 0, to: slot }]} span=${span} took=${slot} /></li>`
      }
      ${rows.map((row) => {
        if (row.type === "line")
          return html`${answer}<li key="line" class="cutline"><span>after the client has its answer</span></li>`;
        if (row.type === "calls")
          return html`<li key=${`c${row.node.i}`}><${CallsRow} row=${row} now=${now} span=${span}
            turn=${() => turnFold(`c${row.node.i}`)} /></li>`;
        if (row.type === "fold")
          return html`<li key=${`f${row.node.i}`} class="foldline" style=${indent(row.depth)}><button type="button"
            aria-expanded=${row.open} onClick=${() => turnFold(row.node.i)}>${row.open ? "fold" : "show"} ${counted(
              row.count,
              "node",
            )} of ${nameOf(run.nodes.find(({ parent }) => parent === row.node.i)?.workflow ?? "")}</button>
                  </li>`;
        const one = row.type === "call" ? row.call : null;
        const folded = row.node.calls.length > MOST_CALLS && !open.has(`c${row.node.i}`);
        const mine = chosen === row.node.i && (one ? one.k === call : row.node.calls.length < 2 || folded);
        return html`<li key=${`${row.node.i}.${one?.k ?? ""}`}><${FallRow} run=${run} node=${row.node} call=${one}
          depth=${row.depth} grouped=${row.grouped} chosen=${mine} now=${now} span=${span}
          choose=${() => choose(row.node.i, one?.k)} /></li>`;
      })}
      ${
        rows.length === 0 &&
        isActive(run) &&
        html`<li class="fallrow"><span class="dim">no node has started</span>
      </li>`
      }
      ${!rows.some(({ type }) => type === "line") && answer}
    </ol>
    <p class="legend" aria-hidden="true">${LEGEND.filter((kind) => kinds.has(kind)).map(
      (kind) => html`<span>
    <i class=${`k-${kind}`}></i>${LEGEND_WORDS[kind] ?? PARTS[kind]}</span>`,
    )}${
      run.first_s !== null &&
      html`<span>
    <i class="mk"></i>first token at the client</span>`
    }</p>
  </section>`;
}

/** What the client got, in short. @param {Run} run */
function answerWords(run) {
  const tokens = run.tokens !== null && `${run.about ? "about " : ""}${counted(run.tokens, "token")}`;
  return listed(tokens, run.finish ?? (run.first_s === null && stateWords(run.state)));
}

/** A row of its own for what the client sent or got.
 * @param {{sign: string, name: string, words: string, chosen: boolean, choose: () => void}} props */
const EndRow = ({ sign, name, words, chosen, choose }) =>
  html`<li><button type="button" class="fallrow end" aria-current=${chosen || null} onClick=${choose}>
    <span class="lab"><span class="n" aria-hidden="true">${sign}</span><span class="t">${name}</span></span>
    <span class="track dim">${words}</span></button></li>`;

/** More calls of a node than one wants to see: one row, from the first to the last.
 * @param {{row: {node: Node, open: boolean, depth: number, grouped: boolean}, now: number, span: Span,
 *   turn: () => void}} props */
function CallsRow({ row: { node, open, depth, grouped }, now, span, turn }) {
  const bars = allCallsBars(node, now);
  const names = [...new Set(node.calls.map(({ endpoint }) => endpoint))];
  const took = bars.reduce((sum, { from, to }) => sum + to - from, 0);
  return html`<button type="button" class=${grouped ? "fallrow group call" : "fallrow call"} style=${indent(depth)}
    aria-expanded=${open} onClick=${turn}><span class="lab"><span class="n" aria-hidden="true">${open ? "⌄" : "›"}
      </span>
      <span class="t">${counted(node.calls.length, "call")}</span><${Chip} name=${
        names.length === 1 ? names[0] : null
      } /></span><${Track} bars=${bars} span=${span} took=${took} /></button>`;
}

/** @param {{name: string | null}} props */
const Chip = ({ name }) => (name ? html`<span class=${`chip c${hueOf(name)}`} title=${name}>${name}</span>` : null);

const LEGEND_WORDS = /** @type {Record<string, string>} */ ({
  other: "without a model",
  first: "until the first token",
  say: "writing",
});

/**
 * @param {{run: Run, node: Node, call: import("../shared/types.js").Call | null, depth: number, grouped: boolean,
 *   chosen: boolean, now: number, span: Span, choose: () => void}} props */
function FallRow({ run, node, call, depth, grouped, chosen, now, span, choose }) {
  const { begun_s: begun, ended_s: ended, endpoint } = call ?? node;
  const took = begun === null ? null : (ended ?? now) - begun;
  const title = call
    ? listed(
        call.backup_of ? "backup" : call.kind === "prefill" ? PARTS.prefill : call.kind,
        call.outcome,
        call.chosen && "chosen",
      )
    : node.title || node.type;
  const state = call ? (call.error ? "failed" : "") : node.state;
  const failed = ["failed", "went_on"].includes(state);
  const time = took !== null && `${took.toFixed(1)} seconds`;
  const said = call
    ? listed(`call ${call.k + 1} of node ${node.number}`, title, endpoint && `endpoint ${endpoint}`, time)
    : listed(
        `node ${node.number}`,
        title,
        node.type,
        endpoint && `endpoint ${endpoint}`,
        time,
        stateWords(state));
  return html`<button type="button" class=${["fallrow", grouped && "group", node.state, call && "call"]
    .filter(Boolean)
    .join(" ")} style=${indent(depth)} aria-current=${chosen || null} onClick=${choose}>
    <span class="unseen">${said}</span><span class="lab" aria-hidden="true"><span class="n">${call ? "" : node.number}
    </span>${(failed || state === "cancelled" || state === "kept") && html`<${Mark} state=${state} plain />`}
      <span class="t" title=${`${title}, ${node.type}, ${node.workflow}`}>${
        node.label &&
        !call &&
        html`<span
        class="dim">${node.label}: </span>`
      }${title}</span>
      <${Chip} name=${endpoint} /></span>
    <${Track} bars=${call ? callBars(call, now) : barsOf(node, run, now)} span=${span} failed=${failed}
      first=${!call && node.answers && node.calls.length > 0 ? run.first_s : null} took=${took} /></button>`;
}

/** @param {number} depth */
const indent = (depth) => (depth ? { "--depth": String(depth) } : {});
/** @param {string} path */
const nameOf = (path) => (path.split("/").at(-1) ?? "").replace(/\.json$/, "") || "a nested run";

// --- the axis of time, and the bars of a row ---

/**
 * @param {{marks: {at: number[], step: number}, span: Span, zoomed: boolean, setZoom: (span: Span | null) => void,
 *   label: unknown}} props
 */
function Axis({ marks, span, zoomed, setZoom, label }) {
  const track = useRef(/** @type {HTMLElement | null} */ (null));
  const [drag, setDrag] = useState(/** @type {Span | null} */ (null));
  const timeAt = (/** @type {PointerEvent} */ event) => {
    const { left, width } = /** @type {HTMLElement} */ (track.current).getBoundingClientRect();
    return span.from + Math.max(0, Math.min(1, (event.clientX - left) / width)) * (span.to - span.from);
  };
  const begin = (/** @type {PointerEvent} */ event) => {
    /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId);
    const at = timeAt(event);
    setDrag({ from: at, to: at });
  };
  const chosen = drag && { from: Math.min(drag.from, drag.to), to: Math.max(drag.from, drag.to) };
  const end = () => {
    if (chosen && chosen.to - chosen.from > (span.to - span.from) / 100) setZoom(chosen);
    setDrag(null);
  };
  const words = marks.at.map((at, index) => tickWords(at, index, marks.step));
  // Long ones would touch: they stand at every second or third tick.
  const every = Math.ceil(Math.max(...words.map(({ length }) => length)) / 4);
  return html`<div class="fallrow axis" title="drag to zoom in; double-click or press 0 to see everything">
    <span class="lab">${
      zoomed ? html`<button type="button" onClick=${() => setZoom(null)}>whole time</button>` : label
    }</span>
    <div class="track" ref=${track} onPointerDown=${begin}
      onPointerMove=${(/** @type {PointerEvent} */ event) => drag && setDrag({ ...drag, to: timeAt(event) })}
        onPointerUp=${end} onDblClick=${() => setZoom(null)}>
      ${marks.at.map(
        (at, index) =>
          index % every === 0 && html`<span key=${at} style=${{ left: percent(at, span) }}>${words[index]}</span>`,
      )}${chosen && html`<i class="drag" style=${between(chosen, span)}></i>`}</div></div>`;
}

/**
 * @param {{bars: Bar[], span: Span, failed?: boolean, first?: number | null, took: number | null}} props `took`:
 *   stands at the end of the bar, before it where the bar ends in the last quarter
 */
function Track({ bars, span, failed, first = null, took }) {
  const end = bars.at(-1)?.to ?? 0;
  const begin = bars[0]?.from ?? 0;
  const length = span.to - span.from || 1;
  const late = end - span.from > 0.75 * length;
  const room = begin - span.from > 0.15 * length;
  const place = !late ? { left: percent(end, span) } : { right: `${room ? (100 * (span.to - begin)) / length : 0}%` };
  const inside = (/** @type {number} */ at) => at >= span.from && at <= span.to;
  return html`<span class="track" aria-hidden="true">
    ${bars.map(({ kind, from, to }) => {
      const seen = { from: Math.max(from, span.from), to: Math.min(to, span.to) };
      return (
        seen.to >= seen.from &&
        html`<i key=${`${kind}${from}`} class=${`k-${kind}`} title=${`${PARTS[kind]} ${seconds(to - from)}`}
          style=${between(seen, span)}></i>`
      );
    })}
    ${
      failed &&
      inside(end) &&
      html`<b class="x" style=${{ left: percent(end, span) }}><${Mark} state="failed" plain />
    </b>`
    }
    ${
      first !== null &&
      inside(first) &&
      html`<i class="mk" title="first token at the client"
      style=${{ left: percent(first, span) }}></i>`
    }
    ${
      took !== null &&
      end >= span.from &&
      begin <= span.to &&
      html`<span class=${late && !room ? "num in" : "num"}
      style=${place}>${spanWords(took)}</span>`
    }</span>`;
}

/** @param {number} at @param {Span} span */
const percent = (at, { from, to }) => `${(100 * (at - from)) / (to - from || 1)}%`;
/** @param {Span} part @param {Span} span */
const between = (part, span) => ({
  left: percent(part.from, span),
  width: percent(span.from + part.to - part.from, span),
});
