// @ts-check
// What is asked of a run on every page. Pure.

/** @typedef {import("./types.js").Summary} Summary */

/** States of a run that goes on. */
export const ACTIVE = ["waiting", "running", "answering", "finishing"];

/** @param {{state: string}} run */
export const isActive = ({ state }) => ACTIVE.includes(state);

/** @param {{shape: [string, number][]}} run */
export const lengthOf = ({ shape }) => shape.reduce((sum, [, length]) => sum + length, 0);
