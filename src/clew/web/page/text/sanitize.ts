// Turns Markdown into DOM nodes that are safe to show. An agent's text is not trusted: raw HTML is shown as text, links lead
// only to http(s) and mailto, images come only from data: URLs, and DOMPurify sanitizes every node at the end.

import DOMPurify from "dompurify";
import { Lexer, Marked, type Token, type Tokens } from "marked";
import { exceedsLimits, hasTooManyMarks } from "./limits.ts";
import { makeVisible } from "./visible.ts";

const TAGS = [
  ..."p br hr h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong del a img".split(" "),
  ..."table thead tbody tr th td".split(" "),
];
const ATTRIBUTES = ["href", "src", "alt", "title", "start", "align", "class", "target", "rel"];
const LINK = /^(https?:|mailto:)/i;
const IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,/i;

const escaped = (text: string): string =>
  text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);

/** Without control characters and blanks: with them, `java\tscript:` would get past a check. */
const withoutBlanks = (href: string): string => [...href].filter((char) => char > " ").join("");

const marked = new Marked({ gfm: true, breaks: false, async: false });
marked.use({
  renderer: {
    html({ text }) {
      return escaped(text);
    },
    code({ text, lang }) {
      const name = (lang ?? "").match(/^[\w+#.-]+/)?.[0] ?? "";
      return `<pre><code${name ? ` class="language-${escaped(name)}"` : ""}>${escaped(text)}\n</code></pre>`;
    },
    heading({ tokens, depth }) {
      const level = Math.min(6, depth + 1); // the first level is the name of the thread
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
    },
    checkbox({ checked }) {
      return checked ? "☑ " : "☐ ";
    },
    link({ href, title, tokens }) {
      const label = this.parser.parseInline(tokens);
      const to = withoutBlanks(href);
      if (!LINK.test(to)) return `${label} <code>${escaped(href)}</code>`;
      return `<a href="${escaped(to)}"${title ? ` title="${escaped(title)}"` : ""}>${label}</a>`;
    },
    image({ href, title, text }) {
      const from = withoutBlanks(href);
      const name = title ? ` title="${escaped(title)}"` : "";
      if (IMAGE.test(from)) return `<img src="${escaped(from)}" alt="${escaped(text)}"${name}>`;
      const label = escaped(text || "image");
      return LINK.test(from) ? `<a href="${escaped(from)}"${name}>${label}</a>` : `${label} <code>${escaped(href)}</code>`;
    },
  },
});

const OPENS = /^<<<data (\S+)[ \t]*\n/;
const ENDS = /^>>>data \S+[ \t]*(?:\n|$)/;

/** The data between `<<<data MARK` and `>>>data MARK`, with both lines. It is shown unchanged. */
function fenced(src: string): string | undefined {
  const opened = OPENS.exec(src);
  if (!opened) return ENDS.exec(src)?.[0]; // a closing line alone is not a quotation either
  const close = `\n>>>data ${opened[1]}`;
  for (let at = opened[0].length - 1; (at = src.indexOf(close, at)) >= 0; at += close.length) {
    const rest = /^[ \t]*(?:\n|$)/.exec(src.slice(at + close.length, at + close.length + 80));
    if (rest) return src.slice(0, at + close.length + rest[0].length);
  }
  return undefined;
}

marked.use({
  extensions: [
    {
      name: "fenced",
      level: "block",
      start(src) {
        const end = src.indexOf("\n\n"); // only the next paragraph is searched, because a long text has many
        const at = (end < 0 ? src : src.slice(0, end)).search(/\n(?:<<<|>>>)data /);
        return at < 0 ? undefined : at + 1;
      },
      tokenizer(src) {
        const raw = fenced(src);
        return raw === undefined ? undefined : { type: "fenced", raw, text: raw.trimEnd() };
      },
      renderer({ text }) {
        return `<pre><code class="language-data">${escaped(text as string)}\n</code></pre>`;
      },
    },
  ],
});

let prepared = false;
function prepare(): void {
  if (prepared) return;
  prepared = true;
  DOMPurify.addHook("afterSanitizeAttributes", (node) => {
    if (node.tagName === "A") {
      node.setAttribute("target", "_blank");
      node.setAttribute("rel", "noopener noreferrer");
    }
    if (node.hasAttribute("class") && !/^language-[\w+#.-]+$/.test(node.getAttribute("class") ?? "")) {
      node.removeAttribute("class");
    }
  });
}

export interface Block {
  raw: string;
  token: Token;
}

/** A paragraph with so many marks that pairing them would take seconds stays plain text. */
class BoundedLexer extends Lexer {
  override inlineTokens(src: string, tokens: Token[] = []): Token[] {
    if (!hasTooManyMarks(src)) return super.inlineTokens(src, tokens);
    tokens.push({ type: "text", raw: src, text: src, escaped: false });
    return tokens;
  }
}

/** The top-level blocks. While an answer grows only the last one changes, so only that one is rendered again. With `breaks`,
 * a newline is a line break, as people expect of what they type. */
export function blocks(text: string, breaks = false): Block[] {
  if (exceedsLimits(text)) throw new RangeError("too large to format");
  return new BoundedLexer({ ...marked.defaults, breaks })
    .lex(text)
    .filter((token) => token.type !== "space" && token.type !== "def")
    .map((token) => ({ raw: token.raw, token }));
}

/** Not yet sanitized. Exported for the tests. */
export function toHtml(token: Token): string {
  const list: Token[] & { links?: Tokens.Link } = [token];
  return marked.parser(list as never) as string;
}

export function toNodes(block: Block): DocumentFragment {
  prepare();
  const safe = DOMPurify.sanitize(toHtml(block.token), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ATTRIBUTES,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/(?:png|jpeg|gif|webp);base64,)/i,
    RETURN_DOM_FRAGMENT: true,
  });
  makeVisible(safe);
  return safe;
}
