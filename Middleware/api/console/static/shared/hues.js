// @ts-check
// The colour of an endpoint, from its name: the same on every page. Pure.

const HUES = 8;

/** 1 to 8, by FNV-1a. @param {string} name */
export function hueOf(name) {
  let sum = 0x811c9dc5;
  for (let at = 0; at < name.length; at++) sum = Math.imul(sum ^ name.charCodeAt(at), 0x01000193) >>> 0;
  return (((sum ^ (sum >>> 16)) >>> 0) % HUES) + 1;
}
