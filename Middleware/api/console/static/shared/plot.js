// @ts-check
// One plot: lines over a common axis, crosses for what failed. Colours are those of the page.
import { html, useEffect, useRef } from "../vendor/preact.js";
import uPlot from "../vendor/plots.js";
import { clock, listed } from "./words.js";

/**
 * @typedef {{ label: string, values: (number | null)[], kind: string, filled?: boolean }} Curve `kind`: whose colour of
 *   the shapes of time it has
 */
/**
 * @typedef {{ x: number[], curves: Curve[], crosses?: (number | null)[], hour?: boolean, whole?: boolean, tell: (value:
 *   number) => string, said: string, moment?: (mark: number) => string }} Props
 *   `crosses`: heights at which something failed; `hour`: a large plot over the time of day, with one cursor for all
 *   such;
 *   `whole`: marks at whole numbers only; `tell`: a value in words; `said`: the plot in words; `moment`: a time of the
 *   axis in words */

const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000, 1_000_000];

/** The library's own style sheet. */
document.head.append(
  Object.assign(document.createElement("link"), { rel: "stylesheet", href: "static/vendor/plots.css" }),
);

/** @param {Props} props */
export function Plot(props) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const crossed = Boolean(props.crosses);
  useEffect(() => {
    const element = /** @type {HTMLElement} */ (box.current);
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(props, element), table(props), element);
    };
    make();
    const sizes = new ResizeObserver(() =>
      plot.current?.setSize({ width: element.clientWidth || 200, height: height(props) }),
    );
    sizes.observe(element);
    const themes = new MutationObserver(make);
    themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      sizes.disconnect();
      themes.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [crossed]);
  useEffect(() => plot.current?.setData(table(props)), [props.x, props.curves, props.crosses]);
  return html`<div class="plot" role="img" aria-label=${props.said} ref=${box}></div>`;
}

/** @param {Props} props @returns {any} columns, as the library takes them */
function table({ x, curves, crosses }) {
  return [x, ...curves.map((curve) => curve.values), ...(crosses ? [crosses] : [])];
}

/** @param {Props} props @param {HTMLElement} element @returns {any} the library's options */
function options(props, element) {
  const look = getComputedStyle(element);
  const colour = (/** @type {string} */ name) => look.getPropertyValue(name);
  const axis = {
    stroke: colour("--soft"),
    font: "11px system-ui",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  const lines = props.curves.map(({ label, kind, filled }) => {
    const stroke = colour(`--w-${kind}`);
    return {
      label,
      stroke,
      width: 1.5,
      spanGaps: true,
      points: { show: true, size: 4, fill: stroke, filter: alone },
      ...(filled ? { fill: `${stroke}22` } : {}),
    };
  });
  const failed = { label: "failed", stroke: colour("--bad"), paths: () => null, points: { show: drawCrosses } };
  const told =
    (/** @type {(mark: number) => string} */ tell) => (/** @type {any} */ _, /** @type {number[]} */ marks) =>
      marks.map(tell);
  return {
    width: element.clientWidth || 200,
    height: height(props),
    legend: { show: false },
    padding: props.hour ? [8, props.moment ? 30 : 16, 0, 0] : [8, 6, 8, 0],
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { size: 5 },
      ...(props.hour ? { sync: { key: "hour" } } : {}),
    },
    scales: { x: { time: Boolean(props.hour) }, y: { range: upwards } },
    axes: [
      {
        ...axis,
        show: Boolean(props.hour),
        size: 22,
        values: told(props.moment ?? ((mark) => clock(mark).slice(-8, -3))),
      },
      {
        ...axis,
        size: props.moment ? 58 : 46,
        space: 24,
        incrs: props.whole ? WHOLE : undefined,
        values: told((mark) => (mark ? props.tell(mark) : "0")),
      },
    ],
    series: [{}, ...lines, ...(props.crosses ? [failed] : [])],
    hooks: { setCursor: [(/** @type {any} */ shown) => say(shown, props, element)] },
  };
}

/** In pixels. @param {Props} props */
const height = ({ hour }) => (hour ? 150 : 72);

/**
 * The point that no line reaches, for there is no other: lines bridge gaps.
 * @param {any} shown
 * @param {number} series
 */
function alone(shown, series) {
  const known = shown.data[series].flatMap((/** @type {number | null} */ value, /** @type {number} */ at) =>
    value === null ? [] : [at],
  );
  return known.length === 1 ? known : [];
}

/**
 * From 0, so that what is small looks small.
 * @param {any} _
 * @param {number | null} least
 * @param {number | null} most
 */
function upwards(_, least, most) {
  return [0, most ? most * 1.08 : 1];
}

/** @param {any} shown @param {number} series */
function drawCrosses(shown, series) {
  const { ctx } = shown;
  const reach = 3 * devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = shown.series[series].stroke();
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.beginPath();
  shown.data[series].forEach((/** @type {number | null} */ value, /** @type {number} */ at) => {
    if (value === null) return;
    const x = shown.valToPos(shown.data[0][at], "x", true);
    const y = shown.valToPos(value, "y", true) - reach;
    ctx.moveTo(x - reach, y - reach);
    ctx.lineTo(x + reach, y + reach);
    ctx.moveTo(x + reach, y - reach);
    ctx.lineTo(x - reach, y + reach);
  });
  ctx.stroke();
  ctx.restore();
  return false;
}

/**
 * What stands under the cursor, in words in the plot's corner.
 * @param {any} shown
 * @param {Props} props
 * @param {HTMLElement} element
 */
function say(shown, props, element) {
  const at = shown.cursor.idx;
  const place =
    element.querySelector(".under") ??
    element.appendChild(Object.assign(document.createElement("span"), { className: "under" }));
  const known = props.curves.map(({ label }, curve) => ({ label, value: shown.data[1 + curve]?.[at] ?? null }));
  place.textContent = listed(...known.map(({ label, value }) => value !== null && `${label} ${props.tell(value)}`));
}
