// A value that components listen to.

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

/** The part of a store that a component shows; it is drawn again only when that part is another one. */
export function useStore<T, P>(store: Store<T>, select: (value: T) => P): P {
  const chosen = select(store.now);
  const [, redraw] = useState(0);
  useLayoutEffect(() => {
    let last = chosen;
    const check = (): void => {
      const next = select(store.now);
      if (Object.is(next, last)) return;
      last = next;
      redraw((n) => n + 1);
    };
    check();
    return store.listen(check);
  });
  return chosen;
}
