// A group of radio buttons, each with a description.

import { useId } from "preact/hooks";
import type { Option } from "../text/labels.ts";

interface Props<V extends string> {
  legend: string;
  options: readonly Option<V>[];
  value: V;
  change: (value: V) => void;
}

export function Radios<V extends string>({ legend, options, value, change }: Props<V>) {
  const name = useId();
  return (
    <fieldset>
      <legend>{legend}</legend>
      <div class="options">
        {options.map((option) => (
          <label key={option.value} class="option">
            <input
              type="radio"
              name={name}
              value={option.value}
              checked={option.value === value}
              onChange={() => change(option.value)}
            />
            <span>
              {option.label}
              <small>{option.description}</small>
            </span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
