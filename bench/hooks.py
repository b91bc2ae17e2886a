"""The time from a forge's request to the answer of `clew serve`: the event is on disk by then, but not handled yet.

The daemon is another process. The messages are signed, and each is about a comment on an issue. They are sent over one
connection, one after the other.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import time
from pathlib import Path

from bench.delivery import LIMIT_S, Daemon, running_daemon
from bench.report import Check, Column, Result, Table
from bench.timing import Sample, counted

SECRET = "a-dummy-secret"
PAYLOAD = Path(__file__).parent.parent / "tests/hooks/payloads/forgejo.issue_comment.created.json"
MAX_MS = 50


def measure(quick: bool) -> Result:
    with running_daemon(1, CLEW_FORGEJO_SECRET=SECRET, CLEW_SERVE_WORK="0") as daemon:
        took = Sample.of(_answered(daemon, 30 if quick else 500))
    columns = (Column("event"), Column("n", ","), Column("median ms", ".1f"), Column("middle half, ms"))
    row = ("a comment on an issue", took.n, took.median, took.spread(spec=".1f"))
    checks = [Check("median, ms", took.median, MAX_MS, timed=True)]
    return Result("hooks", [Table("A forge's event, until it is stored and answered", columns, [row])], checks)


def _answered(daemon: Daemon, count: int) -> list[float]:
    """The milliseconds that each answer took."""
    payload, took = json.loads(PAYLOAD.read_bytes()), []
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=LIMIT_S)
    for number in counted("events", count):
        body = json.dumps({**payload, "nth": number}).encode()  # an identical message would be a duplicate
        headers = {
            "content-type": "application/json",
            "x-forgejo-event": "issue_comment",
            "x-forgejo-delivery": f"delivery-{number}",
            "x-forgejo-signature": hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest(),
        }
        began = time.perf_counter()
        connection.request("POST", "/hooks/forgejo", body, headers)
        response = connection.getresponse()
        answer = json.load(response)
        took.append((time.perf_counter() - began) * 1000)
        if (response.status, answer["state"]) != (202, "received"):
            raise RuntimeError(f"the event was not received: {response.status} {answer}")
    connection.close()
    return took
