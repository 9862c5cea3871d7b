// @ts-check
// Where in the workflows the page is, as an address that can be shared: `#/workflows/<path>?user=&node=&via=&pane=`;
// and where a text is saved, and why it cannot be. Pure.
import { addressOf as address, pathInAddress } from "../shared/address.js";

/**
 * @typedef {{path: string, user: string | null, node: number | null, via: string[], pane: string, run: string | null}}
 *   Place
 * `via`: the files from which one came; `pane`: `text`, `try` or `dry`; `run`: whose messages Try it begins with
 */

/** Folder -> the kind of its files, as the index of Help names it. @type {Record<string, string>} */
const KINDS = {
  Workflows: "workflow",
  Endpoints: "endpoint",
  Presets: "preset",
  Routing: "routing",
  PromptTemplates: "prompttemplate",
  StructuredOutputs: "structuredoutput",
  Users: "user",
  ApiTypes: "apitype",
  MCPServers: "mcpserver",
};
/** The page of the model names, in an address. */
export const NAMES = "model-names";
const PANES = ["text", "try", "dry"];

/**
 * Without a path it is the page of the model names, which has an address of its own, too.
 * @param {{page?: string, parts: string[], query: URLSearchParams}} place @returns {Place}
 */
export function placeOf({ page, parts, query }) {
  const named = page === NAMES ? [] : parts.filter(Boolean);
  const path = (!named.length || KINDS[named[0]] ? named : ["Workflows", ...named]).join("/");
  const node = Number(query.get("node"));
  const pane = query.get("pane") ?? (query.has("try") ? "try" : "text");
  return {
    path,
    user: query.get("user"),
    node: Number.isInteger(node) && node > 0 ? node : null,
    via: query.getAll("via"),
    pane: PANES.includes(pane) ? pane : "text",
    run: query.get("try") || null,
  };
}

/** @param {Partial<Place> & {path: string}} place */
export function addressOf({ path, user, node, via = [], pane = "text", run }) {
  const words = { user: user ?? "", node: String(node ?? ""), pane: pane === "text" ? "" : pane, try: run ?? "" };
  return address(
    "workflows",
    path.split("/"),
    new URLSearchParams([...Object.entries(words), ...via.map((file) => ["via", file])]),
  );
}

/** The place of a child, with the way back. @param {Place} place @param {string} path @returns {Place} */
export const below = (place, path) => ({
  path,
  user: place.user,
  node: null,
  via: [...place.via, place.path].slice(-8),
  pane: "text",
  run: null,
});

/**
 * The places that one came through, outermost first.
 * @param {Place} place
 * @returns {{name: string, address: string}[]}
 */
export const wayBack = (place) =>
  place.via.map((path, at) => ({
    name: nameOf(path),
    address: addressOf({ path, user: place.user, via: place.via.slice(0, at) }),
  }));

/** `Reviewers` of `Workflows/mira/Reviewers.json`. @param {string} path */
export function nameOf(path) {
  const parts = path.replace(/\.json$/, "").split("/");
  return parts.length > 3 && parts.at(-1) === "_DefaultWorkflow" ? String(parts.at(-2)) : String(parts.at(-1));
}

/** Claims that a path is a workflow's; others are shown by the files routes. @param {string} path */
export const isWorkflow = (path) => path.startsWith("Workflows/");

/** The kind of file, as the index of Help names it; empty for others. @param {string} path */
export const kindOf = (path) => KINDS[path.split("/")[0]] ?? "";

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
