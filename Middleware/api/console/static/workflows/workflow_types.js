// @ts-check
// Shapes of the workflow routes, for the type checker. Source: spec console.md 9.
/**
 * @typedef {{line: number, column: number, end_line: number, end_column: number, pointer: string, node: number | null,
 *   level: "error" | "warning" | "note", message: string}} Problem
 * @typedef {{label: string, workflow: string | null, path: string | null, text: boolean}} Child
 * @typedef {{n: number, title: string, type: string, known: boolean,
 *   endpoint: {name: string | null, written: string, file: string | null, model: string | null,
 *   addresses: string[]} | null, preset: string | null,
 *   answers: boolean, after: boolean, group: string | null, alone: string | null, children: Child[],
 *   uses: {n: number, what: string, field: string}[], variables: string[], lines: [number, number], problems:
 *   number[]}} GraphNode
 * @typedef {{responder: number | null, rows: number[][], nodes: GraphNode[]}} GraphShape
 * @typedef {Record<string, {s: number | null, state: string}>} Times
 * @typedef {{path: string, user: string, kind: string, text: string, version: string, writable: boolean, problems:
 *   Problem[],
 *   graph: GraphShape | null, last: {id: string, at: number, nodes: Times} | null}} WorkflowFile
 * @typedef {{path: string, name: string, kind: "workflow" | "settings" | "unreadable", nodes: number, errors: number,
 *   warnings: number,
 *   unused: boolean, starts: string[],
 *   last: {id: string, at: number, state: string, took_s: number | null} | null}} TreeFile
 * @typedef {{users: {name: string, folder: string, files: TreeFile[]}[], shared: {folder: string, model: string, files:
 *   TreeFile[]}[],
 *   common: TreeFile[], other: TreeFile[]}} WorkflowTree
 * @typedef {{name: string, version: string, new_user: string, roles: {role: string, abilities: string[], model: string
 *   | null, endpoints: string[], endpoint: string}[], extras: string[], environment: string[], files: string[],
 *   unchanged: string[], notes: string[], why: string, written: boolean}} PackTold
 * @typedef {{role: string, content: string}} Message
 */
export {};
