// Asks again for what the daemon may have changed: one request is under way at a time, and whoever wants it meanwhile
// gets one more after it.

/** `pauseMs`: at least so long between two requests, for what changes many times a second. */
export function refresher(load: () => Promise<void>, pauseMs = 0): () => Promise<void> {
  let asking: Promise<void> | null = null;
  let again = false;
  const ask = async (): Promise<void> => {
    try {
      do {
        again = false;
        await load();
        if (again && pauseMs > 0) await new Promise((done) => setTimeout(done, pauseMs));
      } while (again);
    } finally {
      asking = null; // at once: who asks from now on is not to be told of an old answer
    }
  };
  return () => {
    again = true;
    asking ??= ask();
    return asking;
  };
}
