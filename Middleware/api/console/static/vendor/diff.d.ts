// What `vendor/diff.js` gives to the page.
export function diffWordsWithSpace(before: string, after: string, options?: { timeout?: number }):
  { value: string; added?: boolean; removed?: boolean }[] | undefined;
