// Loads again what the daemon may have changed. One request runs at a time; calls during it cause one more
// request after it.

/** `pauseMs`: the shortest time between two requests, for data that changes many times a second. */
export function refresher(load: () => Promise<void>, pauseMs = 0): () => Promise<void> {
  let loading: Promise<void> | null = null;
  let again = false;
  const loop = async (): Promise<void> => {
    try {
      do {
        again = false;
        await load();
        if (again && pauseMs > 0) await new Promise((done) => setTimeout(done, pauseMs));
      } while (again);
    } finally {
      loading = null; // at once, so that a later call never gets an old response
    }
  };
  return () => {
    again = true;
    loading ??= loop();
    return loading;
  };
}
