"""`python -m bench [NAME …] [--quick] [--json]`: measures, prints, and rewrites the tables in bench/README.md.

A quick run only prints: it has too few samples for the file. Exits with 1 when a limit that does not depend on the
machine's speed was exceeded.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time

from bench.report import Result, rewrite, to_json, to_markdown
from bench.timing import tell

NAMES = {
    "startup": "clew --help against python -c pass",
    "overhead": "a follow-up with clew ask against the bare CLI",
    "warm": "a follow-up in every way: bare CLI, clew ask cold and with the daemon, HTTP, and two peers",
    "rules": "a conversation with and without the project's rules, in tokens",
    "cost": "conversations by transcript and by resume, in tokens",
    "rewind": "an edit and a retry, rewound and fresh, in tokens",
    "model_switch": "a first turn on another model, with a copy of the session and with the transcript, in tokens",
    "decision": "decision and plan, by the length of the history",
    "store": "operations a second",
    "sessions": "sessions by key, in a table and in a file that is rewritten",
    "session_read": "a session's file, read whole and after one more turn: time and peak memory",
    "threads": "a list's and a search's first page over 100,000 threads",
    "push": "export and push of a session, and the push after one more turn, in bytes",
    "jobs": "submit to start, take-over, throughput, an idle worker",
    "backlog": "50,000 queued jobs and four workers: jobs a second, evenly spread, and what a scan costs",
    "reviews": "a review's follow-ups by the full prompt and by resume, in tokens",
    "delivery": "from the agent's event to a client of the daemon",
    "idle": "memory and CPU of a daemon that has nothing to do, with 20,000 threads",
    "hooks": "from a forge's event to the daemon's answer",
}


def main() -> int:
    wanted = " · ".join(f"{name}: {what}" for name, what in NAMES.items())
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures Clew.", epilog=wanted)
    parser.add_argument("names", nargs="*", metavar="NAME", help="some of them (default: all)")
    parser.add_argument("--quick", action="store_true", help="a short form; bench/README.md stays as it is")
    parser.add_argument("--json", action="store_true", help="print objects instead of tables")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in NAMES]:
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(NAMES)}")
    results = [_measured(name, given.quick) for name in given.names or NAMES]
    if given.json:
        print(json.dumps({"quick": given.quick, "results": [to_json(result) for result in results]}, indent=1))
    else:
        print("\n\n".join(f"## {result.name}\n\n{to_markdown(result)}" for result in results))
    if not given.quick:
        for result in results:
            rewrite(result)
    return 1 if any(not check.passed and not check.timed for result in results for check in result.checks) else 0


def _measured(name: str, quick: bool) -> Result:
    tell(f"{name}: {NAMES[name]}")
    began = time.monotonic()
    result: Result = importlib.import_module(f"bench.{name}").measure(quick)
    tell(f"{name}: done in {time.monotonic() - began:.0f} s")
    return result


if __name__ == "__main__":
    sys.exit(main())
