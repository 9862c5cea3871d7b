// What `vendor/editor.js` gives to the page.
export * from "@codemirror/autocomplete";
export * from "@codemirror/commands";
export * from "@codemirror/lang-json";
export * from "@codemirror/language";
export * from "@codemirror/lint";
export * from "@codemirror/merge";
export * from "@codemirror/search";
export * from "@codemirror/state";
export * from "@codemirror/view";
export { tags } from "@lezer/highlight";
