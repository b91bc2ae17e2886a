// The views of the page and their addresses, which stand after the # of the URL.

export type Route =
  | { at: "home" }
  | { at: "not_found" }
  | { at: "thread"; thread: string }
  | { at: "changes"; thread: string }
  | { at: "jobs" }
  | { at: "job"; job: string }
  | { at: "reviews" }
  | { at: "review"; review: string; round: number | null } // null: the newest round
  | { at: "pairs" }
  | { at: "pair"; pair: string }
  | { at: "compare"; a: string; b: string }
  | { at: "sessions" }
  | { at: "archives" }
  | { at: "operations" }
  | { at: "hooks" }
  | { at: "savings" }
  | { at: "agents" };

const VIEWS = [
  "jobs",
  "reviews",
  "pairs",
  "sessions",
  "archives",
  "operations",
  "hooks",
  "savings",
  "agents",
] as const;

export function routeOf(hash: string): Route {
  const [, first = "", second = "", third = ""] = hash.split("/");
  const id = decode(second);
  if (first === "t" && id) return { at: third === "changes" ? "changes" : "thread", thread: id };
  if (first === "jobs" && id) return { at: "job", job: id };
  if (first === "reviews" && id) return { at: "review", review: id, round: Number(third) || null };
  if (first === "pairs" && id) return { at: "pair", pair: id };
  if (first === "compare" && id && third) return { at: "compare", a: id, b: decode(third) };
  const view = VIEWS.find((each) => each === first);
  return { at: view ?? (first ? "not_found" : "home") };
}

/** An id with an invalid escape is used unchanged. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const encode = encodeURIComponent;

export function hashOf(route: Route): string {
  switch (route.at) {
    case "home":
    case "not_found":
      return "#/";
    case "thread":
      return `#/t/${encode(route.thread)}`;
    case "changes":
      return `#/t/${encode(route.thread)}/changes`;
    case "job":
      return `#/jobs/${encode(route.job)}`;
    case "review":
      return `#/reviews/${encode(route.review)}${route.round === null ? "" : `/${route.round}`}`;
    case "pair":
      return `#/pairs/${encode(route.pair)}`;
    case "compare":
      return `#/compare/${encode(route.a)}/${encode(route.b)}`;
    default:
      return `#/${route.at}`;
  }
}

export function go(route: Route): void {
  location.hash = hashOf(route);
}
