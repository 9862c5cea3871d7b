// @ts-check
// A card moved by the pointer, from `+` to `+`. Source: spec workbench.md 2.

/**
 * @typedef {{left: number, top: number, right: number, bottom: number}} Box
 * @typedef {{n: number, group: string, box: Box, frame?: Box}} Spot a `+`: `n`: the number of a node that comes in
 *   there; `group`: within which, its `frame`; empty: between two rows
 * @typedef {{n: number, from: number, group?: string}} Step the card `from` gets the number `n`; `group`: the one that
 *   it gets, empty: it leaves its own, absent: it keeps what it has
 */

/** What moves less is a click. */
const SLACK = 5;
/** So near to the edge of its pane the picture rolls on, so far at a time. */
const EDGE = 36;
const ROLL = 12;
const ROLL_MS = 40;

/**
 * Where a card comes in that is let go at a point: the nearest place in the group there, else the nearest between two
 * rows, however far to the side.
 * @template {Spot} T
 * @param {number} x @param {number} y @param {T[]} spots
 */
export function spotAt(x, y, spots) {
  const isOver = (/** @type {Box | undefined} */ box) =>
    box && box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
  const within = spots.filter(({ frame }) => isOver(frame));
  const far = (/** @type {Spot} */ { box: { left, top, right, bottom } }) =>
    Math.hypot(within.length && (left + right) / 2 - x, (top + bottom) / 2 - y);
  return (within.length ? within : spots.filter(({ frame }) => !frame)).sort((a, b) => far(a) - far(b))[0];
}

/**
 * What letting a card go there does; null: nothing.
 * @param {number} from its number @param {string} group the one that it is in @param {Spot} spot
 * @returns {Step | null}
 */
export function stepTo(from, group, spot) {
  const n = spot.n > from ? spot.n - 1 : spot.n;
  if (spot.group !== group) return { n, from, group: spot.group };
  return n === from ? null : { n, from };
}

/** @param {HTMLElement} plus */
const spotOf = (plus) => ({
  plus,
  n: Number(plus.dataset.n),
  group: plus.dataset.group ?? "",
  box: plus.getBoundingClientRect(),
  frame: plus.closest(".side")?.getBoundingClientRect(),
});

/**
 * Follows the pointer that went down on a card until it is let go; Escape leaves all as it is.
 * @param {PointerEvent} event on the picture @param {(step: Step) => void} drop
 */
export function follow({ target, currentTarget, pointerId, clientX, clientY }, drop) {
  const canvas = /** @type {HTMLElement} */ (currentTarget);
  const card = /** @type {HTMLElement | null} */ (/** @type {Element} */ (target).closest(".node"));
  if (!card || card.closest(".frame")) return;
  const stop = new AbortController();
  let [x, y] = [clientX, clientY];
  let step = /** @type {Step | null} */ (null);
  let clock = 0;
  const look = () => {
    const spots = /** @type {HTMLElement[]} */ ([...canvas.querySelectorAll(".plus")]).map(spotOf);
    const spot = spotAt(x, y, spots);
    const { group = "" } = spots.find(({ plus }) => plus.parentElement === card.parentElement) ?? {};
    step = clock > 0 ? stepTo(Number(card.dataset.n), group, spot) : null;
    card.toggleAttribute("data-held", clock > 0);
    for (const { plus } of spots) plus.toggleAttribute("data-here", step !== null && plus === spot.plus);
  };
  const roll = () => {
    const pane = /** @type {HTMLElement} */ (canvas.closest(".zoompane"));
    const { top, bottom } = pane.getBoundingClientRect();
    pane.scrollTop += y < top + EDGE ? -ROLL : y > bottom - EDGE ? ROLL : 0;
    look();
  };
  const letGo = () => {
    clearInterval(clock);
    clock = -1;
    look();
  };
  const heard = /** @type {Record<string, (event: any) => unknown>} */ ({
    pointermove(event) {
      [x, y] = [event.clientX, event.clientY];
      if (!clock && Math.hypot(x - clientX, y - clientY) >= SLACK) {
        canvas.setPointerCapture(pointerId);
        clock = setInterval(roll, ROLL_MS);
      }
      if (clock > 0) look();
    },
    pointerup() {
      if (step) drop(step);
      if (clock) letGo();
      setTimeout(() => stop.abort()); // behind the click
    },
    pointercancel() {
      letGo();
      stop.abort();
    },
    keydown(event) {
      if (event.key !== "Escape" || clock <= 0) return;
      event.preventDefault();
      letGo();
    },
    click: (event) => clock && event.stopPropagation(),
  });
  const options = { capture: true, signal: stop.signal };
  for (const [name, deed] of Object.entries(heard)) addEventListener(name, deed, options);
}
