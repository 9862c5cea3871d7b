// @ts-check
// What a name is like: the colour of an endpoint's, the same on every page, how far two words are from each other, and
// which names and descriptions fit what is looked for. Pure.

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

const SMALL = /^(?:an?|and|are|can|do|for|how|i|in|is|it|its|many|may|much|my|of|on|or|the|to|what|with)$/;
const ENDING = /^(?:e?[sd]|ing|e?r|e?st)$/;

/** In small letters, those within camelCase too. @param {string} text @returns {string[]} */
const wordsOf = (text) =>
  `${text} ${text.replace(/([a-z\d])([A-Z])/g, "$1 $2")}`.toLowerCase().match(/[\p{L}\d]+/gu) ?? [];

/** What is looked for, without the words that say little. @param {string} wanted */
export function soughtWords(wanted) {
  const words = [...new Set(wordsOf(wanted))];
  const telling = words.filter((word) => !SMALL.test(word));
  return telling.length ? telling : words;
}

/** How many of the words a text does not have: `longest` is `long`, and `limit` is `limits`.
 * @param {string[]} words @param {string} text */
export function lacking(words, text) {
  const own = wordsOf(text);
  return words.filter(
    (word) =>
      !own.some((one) => one.startsWith(word) || (word.startsWith(one) && ENDING.test(word.slice(one.length)))),
  ).length;
}

/**
 * Those that have all words, by where they have them: a name that is, begins with or holds what is wanted, or nearly is
 * it; then its words; then the description's. If none has all, those with the most of them.
 * @template T @param {T[]} all @param {string} wanted @param {(one: T) => [string, string]} told name and description
 */
export function fitting(all, wanted, told) {
  const words = soughtWords(wanted);
  const bare = squeezed(wanted);
  const rankOf = (/** @type {string} */ name, /** @type {string} */ text) => {
    const own = squeezed(name);
    if (own.includes(bare)) return own === bare ? 0 : own.startsWith(bare) ? 1 : 2;
    if (bare.length > 3 && lettersToChange(own, bare) < 3) return 3;
    const gone = lacking(words, `${name} ${text}`);
    return gone ? 6 + gone : 4 + lacking(words, name) / words.length - Number(squeezed(text).includes(bare)) / 9;
  };
  const ranked = all.map((one) => ({ one, rank: rankOf(...told(one)) })).sort((a, b) => a.rank - b.rank);
  const most = Math.max(6, Math.min(ranked[0]?.rank, 6 + words.length / 2));
  return ranked.filter(({ rank }) => bare && rank <= most).map(({ one }) => one);
}

/** Its letters and digits. @param {string} text */
const squeezed = (text) => text.toLowerCase().replace(/[^\p{L}\d]/gu, "");
