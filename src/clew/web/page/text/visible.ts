// Text that others wrote, made safe to read: invisible characters, which could make it look like something else, are shown
// by their number.

// Control characters except tab and newline (a carriage return before a newline belongs to it), characters that change
// the direction of writing, and characters without width or picture. Joiners stay, because scripts and emoji need them.
const INVISIBLE =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]|\r(?!\n)/gu;

export const visible = (text: string): string => text.replace(INVISIBLE, asNumber);

/** Few fonts have glyphs for control characters. */
const asNumber = (char: string): string => `[U+${char.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}]`;

/** The text on one line, cut where it gets too long. */
export function visibleLine(text: string, maxChars = 200): string {
  const line = visible(text.slice(0, maxChars * 8).replace(/\s+/g, " ").trim());
  return line.length > maxChars || text.length > maxChars * 8 ? `${line.slice(0, maxChars)}…` : line;
}

/** Does the same in the nodes of rendered Markdown, where entities have become characters. */
export function makeVisible(root: Node): void {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node instanceof Element) {
      for (const name of ["title", "alt"]) {
        const value = node.getAttribute(name);
        if (value) node.setAttribute(name, visible(value));
      }
    } else if (node.nodeValue && node.nodeValue.search(INVISIBLE) >= 0) node.nodeValue = visible(node.nodeValue);
  }
}
