// A directory, typed or chosen: the folders below what stands in the field are offered.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { http } from "./http.ts";
import { useStore } from "./store.ts";
import { page } from "./sync.ts";
import { visible } from "./visible.ts";

const ASK_AFTER_MS = 120;

/** The folder whose children are offered, and the beginning of the name that is being typed. */
export function split(path: string): [string, string] {
  const at = path.lastIndexOf("/");
  return at < 0 ? ["", path] : [path.slice(0, at) || "/", path.slice(at + 1)];
}

export function FolderField({ value, change }: { value: string; change: (path: string) => void }) {
  const id = useId();
  const [folders, setFolders] = useState<{ below: string; names: string[] } | null>(null);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const field = useRef<HTMLInputElement>(null);
  const complaint = useStore(page, (now) => (now.complaint?.field === "cwd" ? now.complaint : null));
  const [below, begun] = split(value);

  useEffect(() => {
    if (!open || folders?.below === below) return undefined;
    const timer = setTimeout(() => {
      http.dirs(below).then(
        ({ items }) => setFolders({ below, names: items }),
        () => setFolders({ below, names: [] }),
      );
    }, ASK_AFTER_MS);
    return () => clearTimeout(timer);
  }, [open, below]);

  useEffect(() => {
    if (!complaint) return;
    field.current?.focus();
    setOpen(false); // what is wrong stands where the folders are offered
  }, [complaint]);

  const fitting = (folders?.below === below ? folders.names : [])
    .filter((name) => name.toLowerCase().startsWith(begun.toLowerCase()) && (begun.startsWith(".") || !name.startsWith(".")))
    .slice(0, 8);
  const listed = open && fitting.length > 0 && !(fitting.length === 1 && fitting[0] === begun);
  const pick = (name: string): void => {
    change(`${below === "/" ? "" : below}/${name}/`);
    setAt(-1);
    field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const chosen = fitting[at];
    if (!listed) return;
    if (event.key === "ArrowDown") setAt((at + 1) % fitting.length);
    else if (event.key === "ArrowUp") setAt((at - 1 + fitting.length) % fitting.length);
    else if ((event.key === "Enter" || event.key === "Tab") && chosen !== undefined) pick(chosen);
    else if (event.key === "Escape") setOpen(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="field folder">
      <label for={id}>Directory</label>
      <input
        id={id}
        ref={field}
        type="text"
        role="combobox"
        aria-expanded={listed}
        aria-controls={`${id}-list`}
        aria-invalid={complaint !== null}
        aria-describedby={complaint ? `${id}-wrong` : undefined}
        aria-autocomplete="list"
        aria-activedescendant={listed && at >= 0 ? `${id}-${at}` : undefined}
        data-testid="folder"
        spellcheck={false}
        autocomplete="off"
        value={value}
        onInput={(event) => {
          if (complaint) page.patch({ complaint: null });
          change(event.currentTarget.value);
          setOpen(true);
          setAt(-1);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
      />
      {complaint && (
        <p class="wrong" id={`${id}-wrong`} role="alert" data-testid="folder-problem">
          {complaint.text} {complaint.hint}
        </p>
      )}
      <ul id={`${id}-list`} role="listbox" aria-label="Folders" class={listed ? "" : "none"}>
        {listed &&
          fitting.map((name, index) => (
            <li
              key={name}
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === at}
              onMouseDown={(event) => (event.preventDefault(), pick(name))}
            >
              {visible(name)}/
            </li>
          ))}
      </ul>
    </div>
  );
}
