// Loads the diffs of rounds, and places the findings on them.

import { useEffect, useMemo, useState } from "preact/hooks";
import { http, Problem } from "../daemon/http.ts";
import type { Review } from "../daemon/wire.ts";
import { hunksOf, splitDiff, type FilePatch, type Hunk } from "./patch.ts";
import { placeFindings, roundsToCompare, type Placement } from "./placement.ts";

/** The diffs that were used last. The diff of a round never changes. */
const cache = new Map<string, FilePatch[]>();
const MAX_CACHED = 8;

async function loadDiff(id: string, round: number): Promise<FilePatch[]> {
  const key = `${id}/${round}`;
  const patches = cache.get(key) ?? splitDiff(await http.diff(id, round));
  cache.delete(key); // it is set again, as the newest entry
  cache.set(key, patches);
  for (const old of [...cache.keys()].slice(0, -MAX_CACHED)) cache.delete(old);
  return patches;
}

export function useDiff(id: string, round: number): { patches: FilePatch[] | null; problem: Problem | null; retry: () => void } {
  const [patches, setPatches] = useState<FilePatch[] | null>(cache.get(`${id}/${round}`) ?? null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [attempts, setAttempts] = useState(0);
  useEffect(() => {
    let wanted = true;
    loadDiff(id, round).then(
      (found) => wanted && setPatches(found),
      (error: unknown) => wanted && error instanceof Problem && setProblem(error),
    );
    return () => {
      wanted = false;
    };
  }, [attempts]);
  const retry = (): void => {
    setProblem(null);
    setAttempts(attempts + 1);
  };
  return { patches, problem, retry };
}

/** Where the findings are on the diff of a round. Findings of earlier rounds get their lines once those diffs are loaded. */
export function usePlacement(review: Review, round: number, patches: FilePatch[] | null): Placement {
  const [earlier, setEarlier] = useState<ReadonlyMap<number, FilePatch[]>>(new Map());
  const rounds = roundsToCompare(review, round).join();
  useEffect(() => {
    let wanted = true;
    const numbers = rounds.split(",").filter(Boolean).map(Number);
    void Promise.all(numbers.map(async (number) => [number, await loadDiff(review.id, number)] as const)).then(
      (found) => wanted && setEarlier(new Map(found)),
      () => undefined, // the findings are then shown at the top of their files
    );
    return () => {
      wanted = false;
    };
  }, [rounds]);
  return useMemo(() => {
    const hunksIn = (number: number, path: string): Hunk[] => {
      const diff = number === round ? patches : earlier.get(number);
      return (diff ?? []).filter((each) => each.path === path).flatMap((each) => hunksOf(each.body));
    };
    return placeFindings(review, round, patches ?? [], hunksIn);
  }, [review, round, patches, earlier]);
}
