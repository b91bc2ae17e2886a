// The dialog that imports an exported thread from a file.

import { useState } from "preact/hooks";
import { transferCalls } from "../daemon/transfer.ts";
import type { Import } from "../daemon/wire.ts";
import { openThread } from "../state/open.ts";
import { useOperation } from "../state/operations.ts";
import { closeDialog, page } from "../state/page.ts";
import { lastFolder } from "../state/storage.ts";
import { useStore } from "../state/store.ts";
import { plural, slug } from "../text/format.ts";
import { visible } from "../text/visible.ts";
import { FolderField } from "../ui/FolderField.tsx";
import { Caret } from "../ui/icons.tsx";
import { OperationProgress } from "../ui/Progress.tsx";
import { PassphraseField } from "./PassphraseField.tsx";

export function ImportFile() {
  const settings = useStore(page, (now) => now.settings);
  const [file, setFile] = useState<File | null>(null);
  const [signature, setSignature] = useState<File | null>(null);
  const [cwd, setCwd] = useState(lastFolder.or(settings?.cwd ?? ""));
  const [name, setName] = useState("");
  const [passphrase, setPassphrase] = useState("");
  const { followed, busy, start } = useOperation<Import>((result) => {
    if (!result.dry_run) lastFolder.set(cwd.trim());
  });
  const send = async (dryRun: boolean): Promise<void> => {
    if (!file) return;
    const form = new FormData();
    form.set("file", file);
    form.set("cwd", cwd.trim());
    if (slug(name)) form.set("name", slug(name));
    if (passphrase) form.set("passphrase", passphrase);
    if (signature) form.set("signature", await signature.text());
    if (dryRun) form.set("dry_run", "true");
    await start(transferCalls.import(form), cwd.trim());
  };
  const result = followed?.operation.result;
  const isImported = followed?.operation.status === "done" && result && !result.dry_run;
  return (
    <form data-testid="import-form" onSubmit={(event) => (event.preventDefault(), void send(false))}>
      {!isImported && (
        <>
          <FileField label="File" testid="import-file" change={setFile} />
          <FolderField value={cwd} change={setCwd} />
          <PassphraseField
            label="Passphrase"
            hint="if the file is encrypted with one"
            value={passphrase}
            change={setPassphrase}
          />
          <details class="fold more-settings">
            <summary>
              <Caret size={12} /> More settings
            </summary>
            <label class="field">
              Name
              <input
                type="text"
                placeholder="its own, with a number if that is taken"
                data-testid="import-name"
                value={name}
                onInput={(event) => setName(event.currentTarget.value)}
              />
            </label>
            <FileField label="Signature (the file that ends with .sig)" testid="import-signature" change={setSignature} />
          </details>
        </>
      )}
      {followed && (
        <OperationProgress followed={followed}>{result && <Imported result={result} />}</OperationProgress>
      )}
      <div class="row end">
        <button type="button" onClick={closeDialog}>
          {isImported ? "Close" : "Cancel"}
        </button>
        {!isImported && (
          <>
            <button type="button" disabled={busy || !file || !cwd.trim()} data-testid="check-import" onClick={() => void send(true)}>
              Check only
            </button>
            <button class="primary" type="submit" disabled={busy || !file || !cwd.trim()} data-testid="start-import">
              Import
            </button>
          </>
        )}
      </div>
    </form>
  );
}

interface FileFieldProps {
  label: string;
  testid: string;
  change: (file: File | null) => void;
}

const FileField = ({ label, testid, change }: FileFieldProps) => (
  <label class="field">
    {label}
    <input type="file" data-testid={testid} onChange={(event) => change(event.currentTarget.files?.[0] ?? null)} />
  </label>
);

const Imported = ({ result }: { result: Import }) => (
  <div class="ending" data-testid="imported">
    {result.threads.map((thread) => (
      <p key={thread.id}>
        <strong>{visible(thread.name)}</strong> {result.dry_run ? "would be imported" : "is imported"}, with{" "}
        {plural(result.turns, "turn")}.{" "}
        {!result.dry_run && (
          <button class="link" type="button" data-testid="open-imported" onClick={() => openThread(thread.id)}>
            Open
          </button>
        )}
      </p>
    ))}
    {result.new_ids && <p>It is a copy with new ids, because the thread is here already.</p>}
    {result.sessions.map((session, index) => (
      <p key={index} class="hint">
        The session of {visible(session.agent)} {session.resumable ? "can be resumed." : `cannot be resumed: ${visible(session.why ?? "")}`}
      </p>
    ))}
    {result.notes.map((note) => (
      <p key={note} class="hint">
        {visible(note)}
      </p>
    ))}
  </div>
);
