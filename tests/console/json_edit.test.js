import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  applied,
  changeValue,
  insertBehind,
  insertItem,
  memberOf,
  moveItem,
  quoted,
  removeMember,
  setField,
} from "../../Middleware/api/console/static/workflows/json_edit.js";
import { nodesIn, read } from "../../Middleware/api/console/static/workflows/json_tree.js";

const tree = (text) => read(text).root;
const set = (text, key, value) => applied(text, setField(text, tree(text), key, JSON.stringify(value)));
const out = (text, key) => {
  const root = tree(text);
  return applied(text, removeMember(text, root, memberOf(root, key)));
};

// Of each: what it is called, the text before, the text after.
const SET = [
  ["a value: its span alone", '{ "a" : 1 , "b": 2}', '{ "a" : 7 , "b": 2}'],
  ["of a key that is there twice the last one", '{"a": 1, "a": 2}', '{"a": 1, "a": 7}'],
  ["on one line: behind the last one", '{"b": 2}', '{"b": 2, "a": 7}'],
  ["into nothing", "{}", '{"a": 7}'],
  ["on several lines: a line with the same indent", '{\n\t"b": 2\n}', '{\n\t"b": 2,\n\t"a": 7\n}'],
  ["behind the comment that ends the line, the comma before it", '{\n  "b": 2 // two\n}', '{\n  "b": 2, // two\n  "a": 7\n}'],
  ["a trailing comma stays trailing", '{\n  "b": 2, // two\n}', '{\n  "b": 2, // two\n  "a": 7,\n}'],
  ["a trailing comma on one line", '{"b": 2,}', '{"b": 2, "a": 7,}'],
  ["the bracket on the line of the last member", '{"c": 1,\n    "b": 2}', '{"c": 1,\n    "b": 2,\n    "a": 7}'],
  ["lines within a value are no lines of the object", '{"b": [\n 2\n]}', '{"b": [\n 2\n], "a": 7}'],
  ["before comments on lines of their own", '{\n  "b": 2\n  // end\n}', '{\n  "b": 2,\n  "a": 7\n  // end\n}'],
];
const OUT = [
  ["the first of one line", '{"a": 1, "b": 2}', '{"b": 2}'],
  ["the last of one line", '{"b": 2, "a": 1}', '{"b": 2}'],
  ["the only one", '{"a": 1}', "{}"],
  ["with its line and the comment that ends it", '{\n  "a": 1, // one\n  "b": 2\n}', '{\n  "b": 2\n}'],
  ["the last line takes the comma before it", '{\n  "b": 2, // two\n  "a": 1 // one\n}', '{\n  "b": 2 // two\n}'],
  ["comments on lines of their own stay", '{\n  // about a\n  "a": 1,\n  "b": 2\n}', '{\n  // about a\n  "b": 2\n}'],
  ["a trailing comma stays trailing", '{\n  "b": 2,\n  "a": 1,\n}', '{\n  "b": 2,\n}'],
  ["a comment before its comma stays", '{"a": 1 /* one */, "b": 2}', '{/* one */ "b": 2}'],
  ["a neighbour on its line keeps the line", '{\n  "a": 1, "b": 2\n}', '{\n  "b": 2\n}'],
  ["the last one behind a line comment", '{"b": 2, // two\n "a": 1}', '{"b": 2 // two\n }'],
];

describe("a field", () => {
  for (const [name, before, after] of SET) test(name, () => assert.equal(set(before, "a", 7), after));
  for (const [name, before, after] of OUT) test(`out: ${name}`, () => assert.equal(out(before, "a"), after));

  test("within a text only the stretch that differs", () => {
    const text = '{"a": "caf\\u00e9 \\/ one \\ud83d\\ude00 end"}';
    const [change] = setField(text, tree(text), "a", quoted("caf\u00e9 / two \ud83d\ude00 end"));
    assert.deepEqual([text.slice(change.from, change.to), change.insert], ["one", "two"]);
  });
  test("an emoji is never cut in halves", () => {
    const text = '{"a": "\u{1f600}"}';
    const [change] = setField(text, tree(text), "a", quoted("\u{1f601}"));
    assert.deepEqual([text.slice(change.from, change.to), change.insert], ["\u{1f600}", "\u{1f601}"]);
  });
  test("new letters are escaped where JSON needs it and nowhere else", () =>
    assert.equal(set('{"a": ""}', "a", '"\\\n\u00e9/{{x}}\u2028'), '{"a": "\\"\\\\\\n\u00e9/{{x}}\u2028"}'));
  test("a value of another kind", () => assert.equal(set('{"a": "x"}', "a", ["y"]), '{"a": ["y"]}'));
  test("the same value changes nothing", () => assert.deepEqual(setField('{"a": 1}', tree('{"a": 1}'), "a", "1"), []));
  test("a key that waits for its value", () => assert.equal(set('{"a": }', "a", 7), '{"a": 7 }'));
});

const LIST = '[\n  // first\n  {"n": 1}, // one\n  {"n": 2},\n\n  // third\n  // still third\n  {"n": 3} // three\n]';

describe("a node", () => {
  const list = tree(LIST);
  const without = (at) => applied(LIST, removeMember(LIST, list, list.members[at], { comments: true }));
  const moved = (from, to, text = LIST) => applied(text, moveItem(text, tree(text), from, to));
  test("out, with the comment above it", () =>
    assert.equal(without(0), '[\n  {"n": 2},\n\n  // third\n  // still third\n  {"n": 3} // three\n]'));
  test("the last one out", () => assert.equal(without(2), '[\n  // first\n  {"n": 1}, // one\n  {"n": 2}\n\n]'));
  test("in, before one with a comment", () =>
    assert.ok(applied(LIST, insertItem(LIST, list, 2, '{"n": 9}')).includes('{"n": 2},\n\n  {"n": 9},\n  // third\n')));
  test("in, at the end", () =>
    assert.ok(applied(LIST, insertItem(LIST, list, 3, '{"n": 9}')).endsWith('{"n": 3}, // three\n  {"n": 9}\n]')));
  test("in, on one line", () => assert.equal(applied("[1, 2]", insertItem("[1, 2]", tree("[1, 2]"), 1, "9")), "[1, 9, 2]"));
  test("moved, with its comments; commas stay where they are", () =>
    assert.equal(
      moved(2, 0),
      '[\n  // third\n  // still third\n  {"n": 3}, // three\n  // first\n  {"n": 1}, // one\n\n  {"n": 2}\n]',
    ));
  test("moved there and back is as it was", () => assert.equal(moved(0, 2, moved(2, 0)), LIST));
  test("moved on one line", () => assert.equal(moved(0, 2, "[1, 2, 3]"), "[2, 3, 1]"));
  test("a line comment swallows nothing", () => assert.equal(moved(0, 1, "[1, 2 // two\n]"), "[2, // two\n 1\n]"));
});

// --- the law ---

/** Numbers that look random and are the same each time. */
function dice(seed) {
  let state = seed;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const under = (n) => Math.floor(next() * n);
  return { under, of: (list) => list[under(list.length)], yes: (share = 0.5) => next() < share };
}

const STRINGS = ['""', '"x"', '"caf\\u00e9\\/"', '"{agent1Output} \\n {{b}}"', '"\u{1f600} \\ud83d\\ude00"', '"// no comment"', '"[,]{}"'];
const KEYS = ["type", "title", "prompt", "x", "a/b", "~"];

/** A document with comments, odd spacing, keys that are there twice and trailing commas. */
function documentOf(roll) {
  let comments = 0;
  const comment = (lines) => {
    comments++;
    return roll.yes() && lines ? ` // c${comments}, "{[\n` : ` /* c${comments}, } */ `;
  };
  const gap = (lines) => {
    const blank = roll.of(lines ? ["", " ", "\n", "\n\t", "\n   "] : ["", " ", "  "]);
    return blank + (roll.yes(0.15) ? comment(lines) + roll.of(lines ? ["", "\n", " "] : [" "]) : "");
  };
  const holder = (open, close, count, item) => {
    const lines = roll.yes(0.6);
    const items = Array.from({ length: count }, (_, at) => `${gap(lines)}${item(at)}${gap(lines)}`);
    const trailing = count && roll.yes(0.2) ? `,${gap(lines)}` : "";
    return `${open}${items.join(",")}${trailing}${gap(lines)}${close}`;
  };
  const value = (depth) => {
    const kind = roll.under(depth ? 7 : 5);
    if (kind < 3) return roll.of(STRINGS);
    if (kind < 5) return roll.of(["1", "-2.5", "true", "null", "false"]);
    if (kind === 5) return holder("[", "]", roll.under(3), () => value(depth - 1));
    return holder("{", "}", roll.under(3), () => `"${roll.of(KEYS)}":${gap(false)}${value(depth - 1)}`);
  };
  const node = () => holder("{", "}", roll.under(5), () => `"${roll.of(KEYS)}"${gap(false)}:${gap(false)}${value(2)}`);
  const nodes = holder("[", "]", roll.under(5), node);
  return roll.yes() ? `${gap(true)}${nodes}${gap(true)}` : `${gap(true)}{"v": "{agent1Output}", "nodes": ${nodes}}${gap(true)}`;
}

const TOKEN = /"(?:[^"\\\n]|\\.)*"|\/\/[^\n]*|\/\*[^]*?\*\//g;
/** What the engine reads: comments are blanks, trailing commas are none, of two keys the last one counts. */
const valueOf = (text) => {
  const bare = text.replace(TOKEN, (word) => (word[0] === '"' ? word : " "));
  return JSON.parse(bare.replace(/"(?:[^"\\\n]|\\.)*"|,(?=\s*[\]}])/g, (word) => (word === "," ? "" : word)));
};
const commentsOf = (text) => (text.match(TOKEN) ?? []).filter((word) => word[0] !== '"').map((word) => word.trim());
const nodesOf = (value) => (Array.isArray(value) ? value : value.nodes);
/** The text without comments and blanks: what stays of it must stay. */
const back = (text, changes) => {
  let moved = 0;
  return [...changes]
    .sort((a, b) => a.from - b.from || a.to - b.to)
    .map(({ from, to, insert }) => {
      const change = { from: from + moved, to: from + moved + insert.length, insert: text.slice(from, to) };
      moved += insert.length - (to - from);
      return change;
    });
};

/** One random edit: its changes, what the value is to be, and which comments may go. */
function editOf(roll, text) {
  const { root } = read(text);
  const nodes = nodesIn(root);
  const list = root.kind === "array" ? root : memberOf(root, "nodes").value;
  const expected = valueOf(text);
  const all = nodesOf(expected);
  const at = roll.under(nodes.length || 1);
  const kind = nodes.length ? roll.of(["set", "set", "text", "out", "in", "gone", "move"]) : "in";
  if (kind === "in") {
    const place = roll.under(nodes.length + 1);
    all.splice(place, 0, { new: 1 });
    return { changes: insertItem(text, list, place, '{"new": 1}'), expected, mayGo: [] };
  }
  if (kind === "gone") {
    all.splice(at, 1);
    const changes = removeMember(text, list, list.members[at], { comments: true });
    return { changes, expected, mayGo: null };
  }
  if (kind === "move") {
    const to = roll.under(nodes.length);
    all.splice(to, 0, ...all.splice(at, 1));
    return { changes: moveItem(text, list, at, to), expected, mayGo: [] };
  }
  const node = nodes[at];
  if (kind === "out") {
    const keys = Object.keys(all[at]);
    if (!keys.length) return { changes: [], expected, mayGo: [] };
    const key = roll.of(keys);
    const twice = node.members.filter((member) => member.key === key).length > 1;
    if (twice) return { changes: [], expected, mayGo: [] };
    delete all[at][key];
    const member = memberOf(node, key);
    const line = text.slice(Math.max(member.end, member.comma ?? 0)).split("\n", 1)[0];
    return { changes: removeMember(text, node, member), expected, mayGo: [...commentsOf(text.slice(member.start, member.end)), ...commentsOf(line).slice(0, 1)] };
  }
  const key = roll.of([...KEYS, "fresh"]);
  const member = memberOf(node, key);
  const value = kind === "text" || roll.yes() ? roll.of(["", "{x}\n\"\\\u{1f601}", "caf\u00e9/!"]) : roll.of([1, true, ["a"], { k: "v" }]);
  all[at][key] = value;
  const mayGo = member?.value ? commentsOf(text.slice(member.value.start, member.value.end)) : [];
  return { changes: setField(text, node, key, JSON.stringify(value)), expected, mayGo };
}

const missing = (before, after) => {
  const left = [...after];
  return before.filter((one) => {
    const at = left.indexOf(one);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
};

for (let seed = 1; seed <= 40; seed++)
  test(`random edits of random documents: ${seed}`, () => {
    const roll = dice(seed);
    for (let round = 0; round < 50; round++) {
      const text = documentOf(roll);
      const { changes, expected, mayGo } = editOf(roll, text);
      const after = applied(text, changes);
      const told = `${JSON.stringify(text)}\n${JSON.stringify(after)}`;
      assert.deepEqual(valueOf(after), expected, told);
      if (mayGo) assert.deepEqual(missing(missing(commentsOf(text), commentsOf(after)), mayGo), [], told);
      assert.equal(applied(after, back(text, changes)), text, told);
      for (const [at, change] of changes.entries()) assert.ok(at === 0 || changes[at - 1].to < change.from, told);
    }
  });
