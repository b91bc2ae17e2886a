// A field for a passphrase. The browser neither stores nor completes it.

interface Props {
  label: string;
  hint: string;
  value: string;
  change: (value: string) => void;
}

export const PassphraseField = ({ label, hint, value, change }: Props) => (
  <label class="field">
    {label}
    <input
      type="password"
      autocomplete="off"
      data-testid="passphrase"
      placeholder={hint}
      value={value}
      onInput={(event) => change(event.currentTarget.value)}
    />
  </label>
);
