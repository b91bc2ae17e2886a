// A store: a value that components subscribe to.

import { useLayoutEffect, useState } from "preact/hooks";

export class Store<T> {
  private readonly listeners = new Set<() => void>();

  constructor(private value: T) {}

  get now(): T {
    return this.value;
  }

  set(next: T): void {
    if (Object.is(next, this.value)) return;
    this.value = next;
    for (const listener of [...this.listeners]) listener();
  }

  patch(part: Partial<T>): void {
    this.set({ ...this.value, ...part });
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** The selected part of a store; the component renders again only when that part has changed. */
export function useStore<T, P>(store: Store<T>, select: (value: T) => P): P {
  const chosen = select(store.now);
  const [, render] = useState(0);
  useLayoutEffect(() => {
    let last = chosen;
    const check = (): void => {
      const next = select(store.now);
      if (Object.is(next, last)) return;
      last = next;
      render((n) => n + 1);
    };
    check();
    return store.listen(check);
  });
  return chosen;
}
