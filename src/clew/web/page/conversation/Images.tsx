// The images of a prompt: those that are attached to the next one, and those that a turn has. An image is fetched with the
// page's key, and shown as a data: URL, which the content security policy allows.

import { useEffect, useRef, useState } from "preact/hooks";
import { http } from "../daemon/http.ts";
import type { Image } from "../daemon/wire.ts";
import { notify } from "../state/page.ts";
import { bytes } from "../text/format.ts";
import { visibleLine } from "../text/visible.ts";
import { Close } from "../ui/icons.tsx";
import { useNearViewport } from "../ui/viewport.ts";

export const IMAGE_TYPES = "image/png,image/jpeg,image/gif,image/webp";
const MAX_BYTES = 5 * 1024 * 1024; // of one image
const MAX_ALL_BYTES = 8_500_000; // of a prompt: in base64 they must fit the daemon's limit for a body

export interface Attached {
  name: string;
  size: number;
  url: string; // a data: URL
}

/** The images among the files, as a request sends them. The others are refused in a message. */
export async function attach(files: Iterable<File>, before: readonly Attached[]): Promise<Attached[]> {
  const found = [...before];
  for (const file of files) {
    const all = found.reduce((sum, each) => sum + each.size, file.size);
    if (!IMAGE_TYPES.split(",").includes(file.type)) notify(`${visibleLine(file.name)} is not a PNG, JPEG, GIF or WebP image.`);
    else if (file.size > MAX_BYTES) notify(`${visibleLine(file.name)} has more than 5 MiB. Make it smaller.`);
    else if (all > MAX_ALL_BYTES) notify("These images are too large for one prompt. Send fewer at once.");
    else found.push({ name: file.name, size: file.size, url: await dataUrl(file) });
  }
  return found;
}

export const imageFiles = (data: DataTransfer | null): File[] =>
  [...(data?.files ?? [])].filter((file) => file.type.startsWith("image/"));

const dataUrl = (content: Blob): Promise<string> =>
  new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result as string);
    reader.onerror = () => failed(reader.error ?? new Error("The file cannot be read."));
    reader.readAsDataURL(content);
  });

/** The images of the next prompt. Each can be removed. */
export const AttachedImages = ({ images, change }: { images: readonly Attached[]; change: (next: Attached[]) => void }) => (
  <div class="attached">
    {images.map((image, index) => (
      <span class="attached-image" key={`${index} ${image.name}`} data-testid="attached-image">
        <img src={image.url} alt={visibleLine(image.name)} title={visibleLine(image.name)} />
        <button
          type="button"
          class="quiet"
          aria-label={`Remove ${visibleLine(image.name)}`}
          onClick={() => change(images.filter((_, at) => at !== index))}
        >
          <Close size={12} />
        </button>
      </span>
    ))}
  </div>
);

/** The images of a turn or of a queued prompt. */
export const Images = ({ thread, images }: { thread: string; images: readonly Image[] }) =>
  images.length > 0 ? (
    <div class="images">
      {images.map((image, index) => (
        <ShownImage key={`${index} ${image.digest}`} thread={thread} image={image} />
      ))}
    </div>
  ) : null;

function ShownImage({ thread, image }: { thread: string; image: Image }) {
  const [url, setUrl] = useState<string | null>(null);
  const [gone, setGone] = useState(false);
  const ref = useRef<HTMLElement>(null);
  const near = useNearViewport(ref);
  const name = visibleLine(image.name);
  useEffect(() => {
    if (!near || url) return;
    http
      .image(thread, image.digest)
      .then(dataUrl)
      .then(setUrl)
      .catch(() => setGone(true));
  }, [near, thread, image.digest]);
  return (
    <figure ref={ref} data-testid="turn-image" data-digest={image.digest}>
      {url && <img src={url} alt={name} />}
      <figcaption>
        {name} · {bytes(image.size_bytes)}
        {gone && " · its file is not on this machine"}
      </figcaption>
    </figure>
  );
}
