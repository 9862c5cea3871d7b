// @ts-check
// What an answer that streams says, event by event. Pure.

/** @typedef {{text: string, thought: string, finish: string, error: string}} Said */

/** @type {Said} */
export const NOTHING = { text: "", thought: "", finish: "", error: "" };

/**
 * The sentences about files that a run used in their last good version; none of a run that is not known yet.
 * @param {{stood_out: {rule: string, text: string}[]} | null} run @returns {string[]}
 */
export const outdatedIn = (run) =>
  (run?.stood_out ?? []).filter(({ rule }) => rule === "outdated").map(({ text }) => text);

/** What one event of an OpenAI chat stream says. @param {string} data @returns {Said} */
export function saidIn(data) {
  try {
    const { choices, error } = JSON.parse(data);
    if (error) return { ...NOTHING, error: error.message ?? String(error) };
    const { delta = {}, finish_reason: finish } = choices?.[0] ?? {};
    return {
      text: delta.content ?? "",
      thought: delta.reasoning_content ?? delta.reasoning ?? "",
      finish: finish ?? "",
      error: "",
    };
  } catch {
    return NOTHING; // `[DONE]`
  }
}
