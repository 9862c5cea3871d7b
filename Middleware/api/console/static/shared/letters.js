// @ts-check
// How far two words are from each other. Pure.

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
