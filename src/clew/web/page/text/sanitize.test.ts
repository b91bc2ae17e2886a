// Tests of the HTML that Markdown becomes, before DOMPurify sanitizes it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { blocks, toHtml } from "./sanitize.ts";

const rendered = (markdown: string): string => blocks(markdown).map(({ token }) => toHtml(token)).join("");

test("raw HTML comes out as text", () => {
  assert.equal(rendered("a <b onclick=x>b</b>").includes("<b"), false);
  assert.equal(rendered("<script>alert(1)</script>").includes("<script"), false);
});

test("a link to anything but http, https or mailto is not a link", () => {
  assert.match(rendered("[x](https://example.org)"), /<a href/);
  for (const bad of ["javascript:alert(1)", "java\tscript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc"]) {
    assert.doesNotMatch(rendered(`[x](<${bad}>)`), /<a |href=/, bad);
  }
});

test("an image from another host is a link, so no request is sent", () => {
  assert.doesNotMatch(rendered("![x](https://example.org/x.png)"), /<img/);
  assert.match(rendered("![x](data:image/png;base64,AAAA)"), /<img/);
  assert.doesNotMatch(rendered("![x](data:image/svg+xml;base64,AAAA)"), /<img/);
});

test("fence lines and the data between them are shown unchanged", () => {
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
