// A field for a directory, which offers the folders below the path that is typed.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { http } from "../daemon/http.ts";
import { page } from "../state/page.ts";
import { useStore } from "../state/store.ts";
import { visible } from "../text/visible.ts";

const LOAD_AFTER_MS = 120;

/** The folder whose children are offered, and the start of the name that is being typed. */
export function splitPath(path: string): [string, string] {
  const at = path.lastIndexOf("/");
  return at < 0 ? ["", path] : [path.slice(0, at) || "/", path.slice(at + 1)];
}

export function FolderField({ value, change }: { value: string; change: (path: string) => void }) {
  const id = useId();
  const [folders, setFolders] = useState<{ parent: string; names: string[] } | null>(null);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const field = useRef<HTMLInputElement>(null);
  const error = useStore(page, (now) => (now.formError?.field === "cwd" ? now.formError : null));
  const [parent, start] = splitPath(value);

  useEffect(() => {
    if (!open || folders?.parent === parent) return undefined;
    const timer = setTimeout(() => {
      http.dirs(parent).then(
        ({ items }) => setFolders({ parent, names: items }),
        () => setFolders({ parent, names: [] }),
      );
    }, LOAD_AFTER_MS);
    return () => clearTimeout(timer);
  }, [open, parent]);

  useEffect(() => {
    if (!error) return;
    field.current?.focus();
    setOpen(false); // the error is shown where the folders are offered
  }, [error]);

  const matching = (folders?.parent === parent ? folders.names : [])
    .filter((name) => name.toLowerCase().startsWith(start.toLowerCase()) && (start.startsWith(".") || !name.startsWith(".")))
    .slice(0, 8);
  const listed = open && matching.length > 0 && !(matching.length === 1 && matching[0] === start);
  const pick = (name: string): void => {
    change(`${parent === "/" ? "" : parent}/${name}/`);
    setAt(-1);
    field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const chosen = matching[at];
    if (!listed) return;
    if (event.key === "ArrowDown") setAt((at + 1) % matching.length);
    else if (event.key === "ArrowUp") setAt((at - 1 + matching.length) % matching.length);
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
        aria-invalid={error !== null}
        aria-describedby={error ? `${id}-error` : undefined}
        aria-autocomplete="list"
        aria-activedescendant={listed && at >= 0 ? `${id}-${at}` : undefined}
        data-testid="folder"
        spellcheck={false}
        autocomplete="off"
        value={value}
        onInput={(event) => {
          if (error) page.patch({ formError: null });
          change(event.currentTarget.value);
          setOpen(true);
          setAt(-1);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
      />
      {error && (
        <p class="form-error" id={`${id}-error`} role="alert" data-testid="folder-problem">
          {error.text} {error.hint}
        </p>
      )}
      <ul id={`${id}-list`} role="listbox" aria-label="Folders" class={listed ? "" : "none"}>
        {listed &&
          matching.map((name, index) => (
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
