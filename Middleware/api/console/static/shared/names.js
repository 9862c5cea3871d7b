// @ts-check
// What a name is like: the colour of an endpoint's, the same on every page, and how far two words are from each other.
// Pure.

const HUES = 8;

/** 1 to 8, by FNV-1a. @param {string} name */
export function hueOf(name) {
  let sum = 0x811c9dc5;
  for (let at = 0; at < name.length; at++) sum = Math.imul(sum ^ name.charCodeAt(at), 0x01000193) >>> 0;
  return (((sum ^ (sum >>> 16)) >>> 0) % HUES) + 1;
}

/**
 * How many letters must be changed, added or taken away to make one of the other.
 * @param {string} one
 * @param {string} other
 */
export function lettersToChange(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (const [i, letter] of [...one].entries()) {
    const next = [i + 1];
    for (let j = 0; j < other.length; j++)
      next.push(Math.min(row[j] + (letter === other[j] ? 0 : 1), row[j + 1] + 1, next[j] + 1));
    row = next;
  }
  return row[other.length];
}
