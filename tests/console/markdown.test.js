// The renderer of the Help pages: what it makes of our docs.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { blocks, inline, plain, saidOf, textOf } from "../../Middleware/api/console/static/help/markdown.js";

const DOCS = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "docs");
const PAGES = readdirSync(DOCS, { recursive: true }).map(String).filter((name) => name.endsWith(".md") && !name.startsWith("spec"));

/** Every text that is shown as prose, code left out. */
function* prose(made) {
  for (const block of made) {
    if (block.kind === "list") for (const item of block.items) yield* prose(item);
    else if (block.kind === "quote") yield* prose(block.inside);
    else if (block.kind === "table") for (const row of [block.head, ...block.rows]) for (const cell of row) yield* words(cell);
    else if ("inside" in block) yield* words(block.inside);
  }
}
function* words(parts) {
  for (const part of parts) if (part.kind === "text") yield part.text; else if ("inside" in part) yield* words(part.inside);
}

test("headings, paragraphs, lists, tables, code", () => {
  const made = blocks("# One `two`\n\nA line\nand more.\n\n- a\n- b\n  - c\n\n3. x\n4. y\n\n| k | v |\n|---|---|\n| `a\\|b` | **c** |\n\n```json\n{\"a\": 1}\n```\n");
  assert.deepEqual(made.map((block) => block.kind), ["heading", "paragraph", "list", "list", "table", "code"]);
  assert.equal(made[0].id, "one-two");
  assert.equal(made[2].items[1][1].kind, "list");
  assert.equal(made[3].start, 3);
  assert.deepEqual(made[4].rows[0][0], [{ kind: "code", text: "a|b" }]);
  assert.deepEqual(made[5], { kind: "code", text: '{"a": 1}' });
});

test("code inside an item keeps its own indent", () => {
  const [list] = blocks("1. Write:\n\n   ```json\n   {\n     \"a\": 1\n   }\n   ```\n\n   then go on.\n2. Next");
  assert.deepEqual(list.items.length, 2);
  assert.equal(list.items[0][1].text, '{\n  "a": 1\n}');
  assert.equal(list.items[0][2].kind, "paragraph");
});

test("a list ends where a table or a heading begins, and two headings of one name have two ids", () => {
  const made = blocks("- a\n# T\n- b\n| x |\n|---|\n| y |\n# T");
  assert.deepEqual(made.map((block) => block.kind), ["list", "heading", "list", "table", "heading"]);
  assert.deepEqual([made[1].id, made[4].id], ["t", "t-1"]);
});

test("marks inside a line", () => {
  assert.deepEqual(inline("a **b `**` c** d"), [
    { kind: "text", text: "a " },
    { kind: "strong", inside: [{ kind: "text", text: "b " }, { kind: "code", text: "**" }, { kind: "text", text: " c" }] },
    { kind: "text", text: " d" },
  ]);
  assert.deepEqual(inline("[the `x` page](nodes/X.md#top)"), [
    { kind: "link", to: "nodes/X.md#top", inside: [{ kind: "text", text: "the " }, { kind: "code", text: "x" }, { kind: "text", text: " page" }] },
  ]);
  assert.deepEqual(inline("`` a`b ``"), [{ kind: "code", text: "a`b" }]);
  assert.deepEqual(inline("![a picture](x.png)"), [{ kind: "picture", text: "a picture" }]);
});

test("what it does not know stays text", () => {
  for (const text of ["2 * 3 * 4", "<img src=x onerror=alert(1)>", "[no link]", "a ` b", "[a](b c)", "*", "**", "5 > 3"]) {
    assert.equal(plain(inline(text)), text);
    assert.ok(inline(text).every((part) => part.kind === "text"), text);
  }
  assert.equal(plain(inline("a\\*b")), "a*b");
});

test("long lines of open marks end in time", { timeout: 20000 }, () => {
  for (const mark of ["*", "**", "[", "`", "![", "[a](", "> ", "- ", "<https:"]) assert.ok(blocks(mark.repeat(5000)).length >= 1);
});

test("every page of the docs, without left-over markup", () => {
  assert.ok(PAGES.length > 90);
  for (const page of PAGES) {
    const made = blocks(readFileSync(join(DOCS, page), "utf-8"));
    assert.equal(made[0].kind, "heading", page);
    for (const text of prose(made)) {
      assert.doesNotMatch(text, /\*\*|`|\]\(|^#{1,6} |\|\s*-{3}|^\s*[-+] |(^|\s)\*\S/m, page);
    }
  }
});

const PAGE = "# T\n\n| field | default |\n|---|---|\n| `a`, `b` | 5 |\n| `a` | 6 |\n\nOf `a` **here**\nand there.\n\n- `b` too\n- [`a`](x.md)\n\n| `a` | effect |\n|---|---|\n| 1 | one |\n\n```\na | b\n```";

test("what a page says of a name: its first row with the heads, and what else is about it", () => {
  const { row, more } = saidOf(blocks(PAGE), "a");
  assert.deepEqual(row.map(({ head, cell }) => [plain(head), plain(cell)]), [["field", "a, b"], ["default", "5"]]);
  assert.deepEqual(more.map(({ kind }) => kind), ["paragraph", "paragraph", "table"]);
  assert.deepEqual(saidOf(blocks(PAGE), "c"), { row: null, more: [] });
});

test("what is quoted from a section begins with its heading, which says what it is about", () => {
  const { more } = saidOf(blocks("# T\n\nOf `a`.\n\n## Late\n\n- `a` waits\n- `a` ends\n"), "a");
  assert.deepEqual(more.map(({ inside }) => plain(inside)), ["Of a.", "Late: a waits", "a ends"]);
});

test("a page as text: a line for each block, item and row, without marks", () => {
  assert.deepEqual(textOf(blocks(PAGE)).split("\n"), [
    "T", "field, default", "a, b, 5", "a, 6", "Of a here and there.", "b too", "a", "a, effect", "1, one", "a | b",
  ]);
});
