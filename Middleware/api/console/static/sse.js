// @ts-check
// The lines of an event stream that is read in pieces. Pure.

/** @returns {(piece: string) => string[]} takes the next piece, gives the `data` of the events that ended in it */
export function eventReader() {
  let rest = "";
  return (piece) => {
    const lines = (rest + piece).split(/\r?\n/);
    rest = lines.pop() ?? "";
    return lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart());
  };
}

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
