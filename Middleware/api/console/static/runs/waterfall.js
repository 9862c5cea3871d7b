// @ts-check
// When each node of a run did what: a list of rows, each a button, over one axis of time.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { above, barsOf, callBars, endOf, hues, rowsOf, spanWords, tickWords, ticks } from "./fall_scale.js";
import { step, useKeys } from "../shared/keys.js";
import { Mark } from "../shared/parts.js";
import { isActive } from "../shared/run_state.js";
import { grown } from "./run_list.js";
import { useNow } from "../shared/tick.js";
import { PARTS, counted, listed, seconds, stateWords } from "../shared/words.js";

/**
 * @typedef {import("../shared/types.js").Run} Run
 * @typedef {import("../shared/types.js").Node} Node
 * @typedef {import("./fall_scale.js").Bar} Bar
 * @typedef {{from: number, to: number}} Span
 */

const LEGEND = /** @type {const} */ (["queue", "other", "load", "first", "think", "say", "after", "prefill"]);
const SLOT_S = 0.01;

/**
 * @param {{run: Run, chosen: number | null, call?: number, choose: (i: number, call?: number) => void}} props `chosen`:
 *   the `i` of a node
 */
export function Waterfall({ run, chosen, call = 0, choose }) {
  const [zoom, setZoom] = useState(/** @type {Span | null} */ (null));
  const [open, setOpen] = useState(/** @type {ReadonlySet<number>} */ (new Set()));
  const { took_s: now, shape } = grown(run, useNow(isActive(run)));
  const span = zoom ?? { from: 0, to: endOf(run, now) };
  useKeys({ 0: () => zoom !== null && setZoom(null) });
  const active = isActive(run);
  useEffect(() => {
    const folds = active || chosen === null ? [] : above(run.nodes, chosen);
    if (folds.some((i) => !open.has(i))) setOpen(new Set([...open, ...folds]));
  }, [chosen, active]);
  const colours = hues(run.nodes);
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
  const turnFold = (/** @type {number} */ i) =>
    setOpen(new Set([...open, i].filter((one) => one !== i || !open.has(i))));
  const move = (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && step(".fall button.fallrow", by)) event.preventDefault();
  };
  return html`<section class="fall" aria-label="Time by node">
    <${Axis} marks=${marks} span=${span} zoomed=${zoom !== null} setZoom=${setZoom} />
    <ol class="fallrows" style=${grid} onKeyDown=${move}>
      ${slot > 0 && html`<li class="fallrow slot"><span class="lab"><span class="t dim">waiting for a slot</span>
      </span><${Track} bars=${[{ kind: "queue", from: 0, to: slot }]} span=${span} /><span class="num">
      ${spanWords(slot)}</span></li>`}
      ${rows.map((row) => {
        if (row.type === "line")
          return html`<li key="line" class="cutline"><span>the client has its answer</span></li>`;
        if (row.type === "fold")
          return html`<li key=${`f${row.node.i}`} class="foldline" style=${indent(row.depth)}><button type="button"
            aria-expanded=${row.open} onClick=${() => turnFold(row.node.i)}>${row.open ? "fold"
              : "show"} ${counted(row.count,
                "node")} of ${nameOf(run.nodes.find(({ parent }) => parent === row.node.i)?.workflow ?? "")}</button>
                  </li>`;
        const one = row.type === "call" ? row.call : null;
        const mine = chosen === row.node.i && (one ? one.k === call : row.node.calls.length < 2);
        return html`<li key=${`${row.node.i}.${one?.k ?? ""}`}><${FallRow} run=${run} node=${row.node} call=${one}
          depth=${row.depth} grouped=${row.grouped} chosen=${mine} hue=${colours} now=${now} span=${span}
          choose=${() => choose(row.node.i, one?.k)} /></li>`;
      })}
      ${rows.length === 0 && html`<li class="fallrow"><span class="dim">no node has started</span></li>`}
    </ol>
    <p class="legend" aria-hidden="true">${LEGEND.filter((kind) => kinds.has(kind)).map((kind) => html`<span>
    <i class=${`k-${kind}`}></i>${LEGEND_WORDS[kind] ?? PARTS[kind]}</span>`)}${run.first_s !== null && html`<span>
    <i class="mk"></i>first token at the client</span>`}</p>
  </section>`;
}

const LEGEND_WORDS = /** @type {Record<string, string>} */ ({
  other: "without a model",
  first: "until the first token",
  say: "writing",
});

/**
 * @param {{marks: {at: number[], step: number}, span: Span, zoomed: boolean, setZoom: (span: Span | null) => void}}
 *   props
 */
function Axis({ marks, span, zoomed, setZoom }) {
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
  return html`<div class="fallrow axis" title="drag to zoom in; double-click or press 0 to see everything">
    <span class="lab">${zoomed && html`<button type="button" onClick=${() => setZoom(null)}>whole time</button>`}</span>
    <div class="track" ref=${track} onPointerDown=${begin}
      onPointerMove=${(/** @type {PointerEvent} */ event) => drag && setDrag({ ...drag, to: timeAt(event) })}
        onPointerUp=${end} onDblClick=${() => setZoom(null)}>
      ${marks.at.map((at, index) => html`<span key=${at} style=${{ left: percent(at, span) }}>${tickWords(at, index,
        marks.step)}</span>`)}${chosen && html`<i class="drag" style=${between(chosen, span)}></i>`}</div>
    <span class="num"></span></div>`;
}

/**
 * @param {{run: Run, node: Node, call: import("../shared/types.js").Call | null, depth: number, grouped: boolean,
 *   chosen: boolean, hue: Map<string, number>,
 *   now: number, span: Span, choose: () => void}} props */
function FallRow({ run, node, call, depth, grouped, chosen, hue, now, span, choose }) {
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
    : listed(`node ${node.number}`, title, node.type, endpoint && `endpoint ${endpoint}`, time, stateWords(state));
  return html`<button type="button" class=${["fallrow", grouped && "group", node.state, call &&
    "call"].filter(Boolean).join(" ")} style=${indent(depth)} aria-current=${chosen || null} onClick=${choose}>
    <span class="unseen">${said}</span><span class="lab" aria-hidden="true"><span class="n">${call ? "" : node.number}
    </span>${(failed || state === "cancelled") && html`<${Mark} state=${state} plain />`}
      <span class="t" title=${`${title}, ${node.type}, ${node.workflow}`}>${node.label && !call && html`<span
        class="dim">${node.label}: </span>`}${title}</span>
      ${!call && node.answers && html`<span class="flag">answers</span>`}${endpoint && html`<span
        class=${`chip c${hue.get(endpoint) ?? 1}`} title=${endpoint}>${endpoint}</span>`}</span>
    <${Track} bars=${call ? callBars(call, now) : barsOf(node, run, now)} span=${span} failed=${failed}
      first=${!call && node.answers && node.calls.length > 0 ? run.first_s : null} />
    <span class="num" aria-hidden="true">${spanWords(took)}</span></button>`;
}

/** @param {{bars: Bar[], span: Span, failed?: boolean, first?: number | null}} props */
function Track({ bars, span, failed, first = null }) {
  const end = bars.at(-1)?.to ?? 0;
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
    ${failed && inside(end) && html`<b class="x" style=${{ left: percent(end, span) }}><${Mark} state="failed" plain />
    </b>`}
    ${first !== null && inside(first) && html`<i class="mk" title="first token at the client"
      style=${{ left: percent(first, span) }}></i>`}</span>`;
}

/** @param {number} at @param {Span} span */
const percent = (at, { from, to }) => `${(100 * (at - from)) / (to - from || 1)}%`;
/** @param {Span} part @param {Span} span */
const between = (part, span) => ({
  left: percent(part.from, span),
  width: percent(span.from + part.to - part.from, span),
});
/** @param {number} depth */
const indent = (depth) => (depth ? { "--depth": String(depth) } : {});
/** @param {string} path */
const nameOf = (path) => (path.split("/").at(-1) ?? "").replace(/\.json$/, "") || "a nested run";
