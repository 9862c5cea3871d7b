// @ts-check
// The axis of time over the waterfall, and the bars of one of its rows.
import { html, useRef, useState } from "../vendor/preact.js";
import { spanWords, tickWords } from "./fall_scale.js";
import { Mark } from "../shared/parts.js";
import { PARTS, seconds } from "../shared/words.js";

/**
 * @typedef {import("./fall_scale.js").Bar} Bar
 * @typedef {{from: number, to: number}} Span
 */

/**
 * @param {{marks: {at: number[], step: number}, span: Span, zoomed: boolean, setZoom: (span: Span | null) => void,
 *   label: unknown}} props
 */
export function Axis({ marks, span, zoomed, setZoom, label }) {
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
export function Track({ bars, span, failed, first = null, took }) {
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
export const percent = (at, { from, to }) => `${(100 * (at - from)) / (to - from || 1)}%`;
/** @param {Span} part @param {Span} span */
const between = (part, span) => ({
  left: percent(part.from, span),
  width: percent(span.from + part.to - part.from, span),
});
