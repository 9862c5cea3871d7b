// @ts-check
// Saving a text, and what may come of it.
import { pathInAddress } from "./address.js";
import { guards } from "./place.js";
import { ask } from "./server.js";
import { isWorkflow, placeOf } from "./workflow_place.js";

/**
 * @typedef {import("./workflow_types.js").Problem} Problem
 * @typedef {{kind: "saved", version: string, problems: Problem[]} | {kind: "conflict", version: string, text: string}
 *   | {kind: "refused", sentence: string, problems: Problem[] | null}} Outcome
 */

/** The route of a file. @param {string} path */
export const routeOf = (path) => `${isWorkflow(path) ? "workflows" : "files"}/${pathInAddress(path)}`;

/** @param {string} path @param {string} text @param {string} version of the text that was read @returns {Promise<Outcome>} */
export async function saved(path, text, version) {
  try {
    return { kind: "saved", ...(await ask(routeOf(path), { method: "PUT", body: { text, version } })) };
  } catch (reason) {
    const { status, message, data } = /** @type {Error & {status?: number, data?: any}} */ (reason);
    if (status === 409 && typeof data?.text === "string") return { kind: "conflict", version: data.version, text: data.text };
    return { kind: "refused", sentence: message, problems: data?.problems ?? null };
  }
}

const FOLDERS_BY_HAND = /^(Users|ApiTypes|MCPServers)\//;

/**
 * Why a file cannot be saved from here; empty when it can.
 * @param {{path: string, writable?: boolean}} file @param {string[]} rights @param {string} mode
 */
export function whyNot({ path, writable }, rights, mode) {
  if (!rights.includes("save")) return mode === "edit" ? "Saving needs the console's key." : "Start with --console edit to save from here.";
  if (FOLDERS_BY_HAND.test(path)) return "This folder is edited by hand.";
  return writable === false ? "The server may not write this file." : "";
}

/**
 * Keeps the place when one does not want to leave an unsaved text. Asked once a change of place.
 * @param {string} path of the file that is open
 * @param {() => boolean} unsaved
 * @returns {() => void} ends the watch
 */
export function guardLeaving(path, unsaved) {
  const stays = (/** @type {import("./types.js").Place} */ next) => next.page === "workflows" && placeOf(next).path === path;
  const may = (/** @type {import("./types.js").Place} */ next) => stays(next) || !unsaved() || confirm("The text is not saved. Leave it?");
  const closed = (/** @type {BeforeUnloadEvent} */ event) => {
    if (unsaved()) event.preventDefault();
  };
  guards.add(may);
  addEventListener("beforeunload", closed);
  return () => {
    guards.delete(may);
    removeEventListener("beforeunload", closed);
  };
}
