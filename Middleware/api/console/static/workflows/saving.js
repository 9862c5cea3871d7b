// @ts-check
// Where a text is saved, and why it cannot be.
import { pathInAddress } from "../shared/address.js";
import { isWorkflow } from "./workflow_place.js";

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
