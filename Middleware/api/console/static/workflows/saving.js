// @ts-check
// Where a text is saved, why it cannot be, and who leaves it unsaved.
import { pathInAddress } from "../shared/address.js";
import { guards } from "../shared/place.js";
import { isWorkflow, placeOf } from "./workflow_place.js";

/** The route of a file. @param {string} path */
export const routeOf = (path) => `${isWorkflow(path) ? "workflows" : "files"}/${pathInAddress(path)}`;

const FOLDERS_BY_HAND = /^(Users|ApiTypes|MCPServers)\//;

/**
 * Why a file cannot be saved from here; empty when it can.
 * @param {{path: string, writable?: boolean}} file @param {string[]} rights @param {string} mode
 */
export function whyNot({ path, writable }, rights, mode) {
  if (!rights.includes("save"))
    return mode === "edit" ? "You need the console's key to save." : "Start with --console edit to save from here.";
  if (FOLDERS_BY_HAND.test(path)) return "This folder is edited by hand.";
  return writable === false ? "The server has no permission to write this file." : "";
}

/**
 * Keeps the place when one does not want to leave an unsaved text. Asked once a change of place.
 * @param {string} path of the file that is open
 * @param {() => boolean} unsaved
 * @returns {() => void} ends the watch
 */
export function guardLeaving(path, unsaved) {
  const stays = (/** @type {import("../shared/types.js").Place} */ next) =>
    next.page === "workflows" && placeOf(next).path === path;
  const may = (/** @type {import("../shared/types.js").Place} */ next) =>
    stays(next) || !unsaved() || confirm("Your changes are not saved. Leave anyway?");
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
