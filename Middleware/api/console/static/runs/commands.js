// @ts-check
// Commands to run again, for two shells. Pure. (The server writes those of runs and calls: it knows their keys.)

/** @typedef {"sh" | "powershell"} Shell */

const LONGEST_BODY = 8192;
export const BODY_FILE = "body.json";

/** Whether a command names the body as a file. @param {string} body */
export const isLong = (body) => new TextEncoder().encode(body).length > LONGEST_BODY;

/** @param {string} text @param {Shell} shell */
export const quoted = (text, shell) => `'${text.replaceAll("'", shell === "sh" ? "'\\''" : "''")}'`;

/** The first request to a new server. @param {string} address @param {string} user @param {Shell} shell */
export function firstRequest(address, user, shell) {
  const body = JSON.stringify({ model: user, messages: [{ role: "user", content: "Hello" }] });
  const url = /^[\w./:%+=-]+$/.test(address) ? address : quoted(address, shell);
  return `${shell === "sh" ? "curl" : "curl.exe"} ${url} -H ${quoted(
    "Content-Type: application/json",
    shell,
  )} -d ${quoted(body, shell)}`;
}
