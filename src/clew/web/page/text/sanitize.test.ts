// The other pure parts: diffs, tool lines, words, and markdown before DOMPurify has its say.

import assert from "node:assert/strict";
import { test } from "node:test";
import { diffLines, editsOf, mainArgument, size } from "./edits.ts";
import { split } from "./FolderField.tsx";
import { blocks, html } from "./sanitize.ts";
import { count, dollars, duration, reasonWords, times } from "./words.ts";

const signs = (before: string, after: string): string =>
  diffLines(before, after)
    .map((line) => line.sign + line.text)
    .join("|");

test("a diff keeps what is common and names what changed", () => {
  assert.equal(signs("a\nb\nc", "a\nx\nc"), " a|-b|+x| c");
  assert.equal(signs("", "a\nb\n"), "+a|+b");
  assert.equal(signs("a", ""), "-a");
});

test("a diff shows three lines around a change, not the file", () => {
  const many = Array.from({ length: 50 }, (_, index) => `line ${index}`);
  const changed = many.with(25, "other");
  assert.equal(diffLines(many.join("\n"), changed.join("\n")).length, 8);
});

test("a diff of two huge texts ends", () => {
  const lines = (word: string): string => Array.from({ length: 5000 }, (_, index) => `${word}${index}`).join("\n");
  assert.equal(diffLines(lines("a"), lines("b")).length, 10_000);
});

test("edits are known by the shape of the input, whatever the tool is called", () => {
  const change = editsOf({ input: { file_path: "/a", old_string: "x", new_string: "y" } });
  const write = editsOf({ input: { file_path: "/b", content: "1\n2\n" } });
  const many = editsOf({ input: { file_path: "/c", edits: [{ old_string: "1", new_string: "2" }] } });
  const files = editsOf({ input: { changes: [{ path: "/d", kind: "add", diff: "@@ -0,0 +1 @@\n+new\n" }] } });
  assert.deepEqual(
    [change, write, many, files].map((edits) => [edits[0]?.path, edits[0]?.kind, size(edits)]),
    [
      ["/a", "change", { added: 1, removed: 1 }],
      ["/b", "add", { added: 2, removed: 0 }],
      ["/c", "change", { added: 1, removed: 1 }],
      ["/d", "add", { added: 1, removed: 0 }],
    ],
  );
  assert.deepEqual(editsOf({ input: { command: "ls" } }), []);
});

test("a tool call is told in one line", () => {
  assert.equal(mainArgument({ command: "ls\n  -la", description: "list" }), "ls -la");
  assert.equal(mainArgument({ file_path: "/a/b" }), "/a/b");
  assert.equal(mainArgument({}), "");
});

test("numbers are short", () => {
  assert.deepEqual([count(999), count(1000), count(48_210), count(1_500_000)], ["999", "1k", "48.2k", "1.5M"]);
  assert.deepEqual([dollars(0), dollars(0.00312), dollars(0.2), dollars(12.5)], ["$0", "$0.0031", "$0.200", "$12.50"]);
  assert.deepEqual([duration(900), duration(12_000), duration(61_000)], ["0.9 s", "12 s", "1 min 1 s"]);
  const even = [5_000, 59_700, 119_900, 1_800_000, 7_200_000, 7_260_000].map(duration);
  assert.deepEqual(even, ["5 s", "1 min", "2 min", "30 min", "2 h", "2 h 1 min"], "what is nothing is not said");
  assert.deepEqual([times(1), times(2)], ["once", "2 times"]);
});

test("a reason that this page does not know is still said", () => {
  assert.equal(reasonWords("history_changed"), "history changed");
  assert.equal(reasonWords("session_diverged"), "the session went on outside Clew; what was said there is not in this thread");
  assert.equal(reasonWords("some_later_reason"), "some later reason");
});

test("a path that is being typed is cut at its last folder", () => {
  assert.deepEqual(split("/home/me/pro"), ["/home/me", "pro"]);
  assert.deepEqual(split("/ho"), ["/", "ho"]);
});

const rendered = (markdown: string): string => blocks(markdown).map(({ token }) => html(token)).join("");

test("raw HTML comes out as text", () => {
  assert.equal(rendered("a <b onclick=x>b</b>").includes("<b"), false);
  assert.equal(rendered("<script>alert(1)</script>").includes("<script"), false);
});

test("a link leads to http, https or mailto, or it is none", () => {
  assert.match(rendered("[x](https://example.org)"), /<a href/);
  for (const bad of ["javascript:alert(1)", "java\tscript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc"]) {
    assert.doesNotMatch(rendered(`[x](<${bad}>)`), /<a |href=/, bad);
  }
});

test("a picture from elsewhere is a link, so no request leaves", () => {
  assert.doesNotMatch(rendered("![x](https://example.org/x.png)"), /<img/);
  assert.match(rendered("![x](data:image/png;base64,AAAA)"), /<img/);
  assert.doesNotMatch(rendered("![x](data:image/svg+xml;base64,AAAA)"), /<img/);
});

test("fence lines and the data between them come out as they were sent", () => {
  const sent = "<<<data e217\n# not a title\n> said\n>>>data other\n\n```\n>>>data e217";
  const drawn = rendered(`pull.opened\n${sent}\nNow *look*.`);
  const [, shown] = /<code class="language-data">([^]*)\n<\/code>/.exec(drawn) ?? [];
  assert.equal(shown?.replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code))), sent);
  assert.match(drawn, /^<p>pull.opened<\/p>[^]*<p>Now <em>look<\/em>.<\/p>\n$/);
  assert.doesNotMatch(rendered("no end:\n<<<data e217\na\n\nno begin:\n>>>data e217\nb"), /<blockquote/);
  assert.match(rendered("> said"), /<blockquote/);
  assert.match(rendered("```\n<<<data e217\n>>>data e217\n```"), /^<pre><code>/);
});

test("blocks before the last one do not change while a text grows", () => {
  const before = blocks("# One\n\ntext\n\nmore");
  const after = blocks("# One\n\ntext\n\nmore words");
  assert.deepEqual(before.slice(0, 2).map((block) => block.raw), after.slice(0, 2).map((block) => block.raw));
});
