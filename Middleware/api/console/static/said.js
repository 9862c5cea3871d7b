// @ts-check
// What an answer that streams says, event by event. Pure.

/**
 * What one event of an OpenAI chat stream says.
 * @param {string} data
 * @returns {{text: string, thought: string, finish: string | null, error: string | null, end: boolean}}
 */
export function saidIn(data) {
  const nothing = { text: "", thought: "", finish: null, error: null, end: false };
  if (data === "[DONE]") return { ...nothing, end: true };
  try {
    const { choices, error } = JSON.parse(data);
    if (error) return { ...nothing, error: error.message ?? String(error) };
    const { delta = {}, finish_reason: finish = null } = choices?.[0] ?? {};
    return { ...nothing, text: delta.content ?? "", thought: delta.reasoning_content ?? delta.reasoning ?? "", finish };
  } catch {
    return nothing;
  }
}
