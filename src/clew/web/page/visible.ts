// What others wrote, as plain text that cannot lie about itself: characters that act instead of being seen are shown.

// Controls but for tab and newline (a carriage return before one is a part of it), what turns the direction of writing,
// and what has no width. The joiners stay: writing systems and emoji need them.
const UNSEEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]|\r(?!\n)/g;

export const visible = (text: string): string => text.replace(UNSEEN, named);

/** By its number: few fonts have the pictures of control characters. */
const named = (char: string): string => `[U+${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`;

/** In one line, cut where it gets too long. */
export function visibleLine(text: string, most = 200): string {
  const line = visible(text.slice(0, most * 8).replace(/\s+/g, " ").trim());
  return line.length > most || text.length > most * 8 ? `${line.slice(0, most)}…` : line;
}

/** In the nodes of what was markdown: entities have become characters by now. */
export function makeVisible(root: Node): void {
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    if (node instanceof Element) {
      for (const name of ["title", "alt"]) {
        const words = node.getAttribute(name);
        if (words) node.setAttribute(name, visible(words));
      }
    } else if (node.nodeValue && node.nodeValue.search(UNSEEN) >= 0) node.nodeValue = visible(node.nodeValue);
  }
}
