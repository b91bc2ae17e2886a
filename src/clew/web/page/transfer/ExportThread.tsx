// The dialog that exports a thread to a file, which the browser saves.

import { useState } from "preact/hooks";
import { transferCalls } from "../daemon/transfer.ts";
import type { ExportedFile, ExportOperation, Thread } from "../daemon/wire.ts";
import { download, useOperation } from "../state/operations.ts";
import { closeDialog } from "../state/page.ts";
import { bytes, plural } from "../text/format.ts";
import type { Option } from "../text/labels.ts";
import { visible } from "../text/visible.ts";
import { Caret, Download } from "../ui/icons.tsx";
import { OperationProgress, Secrets } from "../ui/Progress.tsx";
import { Radios } from "../ui/Radios.tsx";
import { PassphraseField } from "./PassphraseField.tsx";

type Content = "checked" | "redacted" | "with_secrets";

const CONTENTS: Option<Content>[] = [
  { value: "checked", label: "Everything", description: "Turns, runs and sessions. Refused if it contains a secret." },
  { value: "redacted", label: "Redacted", description: "Only the history, with secrets blanked; its session stays here." },
  { value: "with_secrets", label: "With secrets", description: "Everything, even if it contains secrets." },
];

export function ExportThread({ thread }: { thread: Thread }) {
  const [content, setContent] = useState<Content>("checked");
  const [passphrase, setPassphrase] = useState("");
  const [recipients, setRecipients] = useState("");
  const { followed, busy, start } = useOperation<ExportedFile>((_, operation) => void download(operation));
  const submit = (event: Event): void => {
    event.preventDefault();
    const keys = recipients.split("\n").map((line) => line.trim()).filter(Boolean);
    void start(
      transferCalls.export(thread.id, {
        ...(content === "redacted" ? { redact: true } : {}),
        ...(content === "with_secrets" ? { with_secrets: true } : {}),
        ...(passphrase ? { passphrase } : {}),
        ...(keys.length > 0 ? { recipients: keys } : {}),
      }),
    );
  };
  const isDone = followed?.operation.status === "done";
  return (
    <form data-testid="export-form" onSubmit={submit}>
      {!isDone && (
        <>
          <Radios legend="What to export" options={CONTENTS} value={content} change={setContent} />
          <PassphraseField
            label="Passphrase"
            hint="encrypts the file (optional)"
            value={passphrase}
            change={setPassphrase}
          />
          <details class="fold more-settings">
            <summary>
              <Caret size={12} /> Encrypt for keys
            </summary>
            <label class="field">
              Recipients
              <textarea
                rows={2}
                spellcheck={false}
                placeholder="age1… or SSH public keys, one per line"
                value={recipients}
                onInput={(event) => setRecipients(event.currentTarget.value)}
              />
            </label>
          </details>
        </>
      )}
      {followed && (
        <OperationProgress followed={followed}>
          <Exported operation={followed.operation} />
        </OperationProgress>
      )}
      <div class="row end">
        <button type="button" onClick={closeDialog}>
          {isDone ? "Close" : "Cancel"}
        </button>
        {!isDone && (
          <button class="primary" type="submit" data-testid="start-export" disabled={busy}>
            Export
          </button>
        )}
      </div>
    </form>
  );
}

export function Exported({ operation }: { operation: ExportOperation }) {
  const { file, result } = operation;
  if (!file || !result) return null;
  return (
    <div class="ending" data-testid="exported">
      <p>
        <strong>{visible(file.name)}</strong> {bytes(file.size_bytes)} · {plural(result.turns, "turn")}
        {result.encrypted && " · encrypted"}
        {result.redacted !== null && ` · ${plural(result.redacted, "secret")} blanked`}
      </p>
      <Secrets secrets={result.secrets} />
      {result.sessions
        .filter((session) => !session.included)
        .map((session, index) => (
          <p key={index} class="hint">
            Without the session of {visible(session.agent)}
            {session.why && `: ${visible(session.why)}`}
          </p>
        ))}
      <div class="row">
        <button type="button" data-testid="download" onClick={() => void download(operation)}>
          <Download size={14} /> Save again
        </button>
      </div>
    </div>
  );
}
