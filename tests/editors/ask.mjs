// Asks the JSON language service of VS Code. Input (stdin, JSON): { schemas: folder, asks: [{ file, text }] };
// a `|` in `text` is the cursor. Output: per ask { diagnostics, completions, hover }.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.argv[2] + "/"));
const { getLanguageService, TextDocument } = require("vscode-json-languageservice");

const { schemas, asks } = JSON.parse(readFileSync(0, "utf8"));
const base = pathToFileURL(schemas + "/").href;
const service = getLanguageService({
  schemaRequestService: async (uri) => readFileSync(new URL(uri), "utf8"),
  workspaceContext: { resolveRelativePath: (path, from) => new URL(path, from).href },
});

const answers = [];
for (const { file, text } of asks) {
  const cursor = text.indexOf("|");
  const document = TextDocument.create("file:///x.json", "json", 1, text.replace("|", ""));
  service.configure({ schemas: [{ fileMatch: ["*"], uri: base + file }], validate: true });
  const parsed = service.parseJSONDocument(document);
  const diagnostics = await service.doValidation(document, parsed, { schemaValidation: "warning" });
  const answer = { diagnostics: diagnostics.map((found) => [document.getText(found.range), found.message]) };
  if (cursor >= 0) {
    const position = document.positionAt(cursor);
    const { items } = await service.doComplete(document, position, parsed);
    const sorted = items.sort((a, b) => ((a.sortText ?? a.label) < (b.sortText ?? b.label) ? -1 : 1));
    answer.completions = sorted.map((item) => [item.label, item.documentation?.value ?? item.documentation ?? ""]);
    const hover = await service.doHover(document, position, parsed);
    answer.hover = hover ? [hover.contents].flat().map((part) => part.value ?? part).join("\n") : "";
  }
  answers.push(answer);
}
console.log(JSON.stringify(answers));
