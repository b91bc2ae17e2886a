// The fields of a form that choose a remote.

import { useState } from "preact/hooks";
import type { RemoteRequest } from "../daemon/wire.ts";
import { lastRemote } from "../state/storage.ts";
import { focusOnMount } from "../ui/focus.ts";
import { PassphraseField } from "./PassphraseField.tsx";

export interface Remote {
  url: string;
  passphrase: string;
}

export const useRemote = (): [Remote, (part: Partial<Remote>) => void] => {
  const [remote, setRemote] = useState<Remote>({ url: lastRemote.get(), passphrase: "" });
  return [remote, (part) => setRemote({ ...remote, ...part })];
};

/** The part of a request that names the remote. An empty address is that of the settings. */
export function remoteBody({ url, passphrase }: Remote): RemoteRequest {
  lastRemote.set(url.trim());
  return { ...(url.trim() ? { url: url.trim() } : {}), ...(passphrase ? { passphrase } : {}) };
}

export const RemoteFields = ({ remote, change }: { remote: Remote; change: (part: Partial<Remote>) => void }) => (
  <>
    <label class="field">
      Remote
      <input
        type="text"
        spellcheck={false}
        autocomplete="off"
        autoFocus
        ref={focusOnMount}
        data-testid="remote-url"
        placeholder="s3://…, gs://…, az://… or file:///…; empty: the setting remote.url"
        value={remote.url}
        onInput={(event) => change({ url: event.currentTarget.value })}
      />
    </label>
    <PassphraseField
      label="Passphrase"
      hint="if the remote is encrypted with one"
      value={remote.passphrase}
      change={(passphrase) => change({ passphrase })}
    />
  </>
);
