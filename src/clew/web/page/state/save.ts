// Saves a file in the browser. It is not a plain link, because a link could not send the page key.

const KEEP_MS = 60_000; // the browser may still be reading it

export function saveFile(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEEP_MS);
}
