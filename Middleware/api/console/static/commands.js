// @ts-check
// Commands to run again, for two shells. Pure. (The server writes those of runs and calls: it knows their keys.)

/** @typedef {"sh" | "powershell"} Shell */

export const LONGEST_BODY = 8192;
export const BODY_FILE = "body.json";

/** @param {string} text @param {Shell} shell */
export function quoted(text, shell) {
  return shell === "sh" ? `'${text.replaceAll("'", "'\\''")}'` : `'${text.replaceAll("'", "''")}'`;
}

/** A request with a JSON body; a long one is named as a file. @param {string} address @param {string} body @param {Shell} shell */
export function asCurl(address, body, shell) {
  const data = isLong(body) ? `@${BODY_FILE}` : body;
  const said = isLong(body) && shell === "sh" ? data : quoted(data, shell);
  const url = /^[\w./:%+=-]+$/.test(address) ? address : quoted(address, shell);
  return `${shell === "sh" ? "curl" : "curl.exe"} ${url} -H ${quoted("Content-Type: application/json", shell)} -d ${said}`;
}

/** @param {string} body */
export const isLong = (body) => new TextEncoder().encode(body).length > LONGEST_BODY;

/** The first request to a new server. @param {string} address @param {string} user @param {Shell} shell */
export function firstRequest(address, user, shell) {
  return asCurl(`${address}/v1/chat/completions`, JSON.stringify({ model: user, messages: [{ role: "user", content: "Hello" }] }), shell);
}
