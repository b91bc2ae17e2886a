"""The output of `clew threads push` and `pull`: progress in bytes, and the result of each thread."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from clew.cli.error_report import error_object, print_error
from clew.cli.threads.export import note_secrets
from clew.cli.threads.imports import note_sessions, session_object
from clew.cli.ui.formatting import ago, harmless, plural
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.tables import columns
from clew.errors import ClewError
from clew.system.timestamps import stamp

if TYPE_CHECKING:
    import asyncio

    from clew.hosts.transfer.remote.remote import Remote, RemoteListing
    from clew.hosts.transfer.remote.sync import PullResult, PushResult

T = TypeVar("T")
Done = TypeVar("Done", "PushResult", "PullResult")

QUIET_S = 1.0  # work that takes no longer is not shown
EVERY_S = 5.0  # how often a line is printed if stderr is not a terminal
PUSHED = {
    "pushed": "pushed",
    "unchanged": "the remote has all of it",
    "behind": "the remote has changed, and nothing is new here: pull updates it",
}
PULLED = {
    "new": "pulled",
    "updated": "updated; what was here is archived",
    "unchanged": "nothing new",
    "ahead": "nothing new at the remote; push sends what is new here",
}


class Progress:
    """Shows what is being done, if it takes more than a second: a line that is redrawn, or one every few seconds."""

    def __init__(self) -> None:
        self._began_at = self._noted_at = time.monotonic()
        self._words = ""
        self._watch: asyncio.Task[None] | None = None
        self._status: Any = None
        if sys.stderr is not None and sys.stderr.isatty():
            from clew.cli.ui.status_line import StatusLine

            self._status = StatusLine()
            self._status.hide()

    async def __aenter__(self) -> Progress:
        if self._status is not None:
            self._status.start()
            self._status.hide()
        import asyncio

        self._watch = asyncio.create_task(self._watched())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._status is not None:
            await self._status.close()

    def say(self, words: str) -> None:
        self._words = harmless(words)
        self._show()

    def of(self, doing: str, name: str) -> Callable[[int, int], None]:
        return lambda done, total: self.say(f"{doing} {name}: {done / 1e6:,.1f} of {total / 1e6:,.1f} MB")

    def asking(self, ask: Callable[[], T]) -> T:
        """Hides the line while the user types a passphrase. A note replaces the line while the passphrase is tried."""
        if self._status is not None:
            self._status.hide()
        given = ask()
        if self._status is not None:
            note("trying the passphrase")
        self._began_at = self._noted_at = time.monotonic()
        return given

    async def _watched(self) -> None:
        """Redraws the line even if nothing has changed, so that the user sees that something is being done."""
        import asyncio

        while True:
            await asyncio.sleep(QUIET_S)
            self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._began_at < QUIET_S:
            return
        if self._status is not None:
            self._status.show(self._words)
        elif now - self._noted_at > EVERY_S:
            self._noted_at = now
            note(self._words)


def print_pushed(
    remote: Remote, done: list[tuple[str, PushResult | ClewError]], *, dry_run: bool, as_json: bool
) -> int:
    def print_one(pushed: PushResult, whose: str) -> None:
        say(f"{whose}  {_would(PUSHED[pushed.state], dry_run)}")
        if pushed.state == "pushed" and dry_run:
            note(f"{whose}: {plural(pushed.new_bytes, 'byte')} would be compressed and sent")
        elif pushed.state == "pushed":
            sent = f"sent {plural(pushed.sent.size_bytes, 'byte')}{', signed' * pushed.signed}"
            note(f"{whose}: {plural(pushed.turns, 'turn')}; {sent}")
        note_secrets(pushed.secrets, f"{whose} holds")

    return _print_results(remote, done, print_one, _pushed_object, dry_run=dry_run, as_json=as_json)


def print_pulled(
    remote: Remote, done: list[tuple[str, PullResult | ClewError]], *, dry_run: bool, as_json: bool
) -> int:
    def print_one(pulled: PullResult, whose: str) -> None:
        say(f"{whose}  {_would(PULLED[pulled.state], dry_run)}")
        if pulled.signer is not None:
            note(f"{whose}: signed by {harmless(pulled.signer)}")
        if pulled.imported is not None:
            note_sessions(pulled.imported, f"{whose}: ")

    return _print_results(remote, done, print_one, _pulled_object, dry_run=dry_run, as_json=as_json)


def _print_results(
    remote: Remote,
    done: list[tuple[str, Done | ClewError]],
    print_one: Callable[[Done, str], None],
    to_object: Callable[[Done], dict[str, Any]],
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Prints the result of each thread, and returns the exit code of the first error."""
    if as_json:
        threads = [_error_object(name, each) if isinstance(each, ClewError) else to_object(each) for name, each in done]
        print_json(_about(remote, dry_run) | {"threads": threads})
    else:
        for name, each in done:
            if not isinstance(each, ClewError):
                print_one(each, harmless(each.name))
                continue
            if name not in each.message:
                each.message = f"{name}: {each.message}"
            print_error(each)
    return next((each.exit_code for _, each in done if isinstance(each, ClewError)), 0)


def _would(words: str, dry_run: bool) -> str:
    return f"would be {words}" if dry_run and words.split()[0] in ("pushed", "pulled", "updated") else words


def print_listing(remote: Remote, there: RemoteListing, *, as_json: bool) -> None:
    if as_json:
        print_json(
            _about(remote, False)
            | {
                "threads": [
                    {
                        "name": each.name,
                        "id": each.thread_id,
                        "kind": each.kind,
                        "agent": each.agent,
                        "turns": each.turns,
                        "number": each.number,
                        "size_bytes": sum(part.size_bytes for part in each.parts),
                        "pushed_at": stamp(each.pushed_at),
                    }
                    for each in there.manifests
                ],
                "problems": [problem.message for problem in there.problems],
            }
        )
        return
    rows = [
        tuple(harmless(cell) for cell in (each.name, each.kind, each.agent, f"{each.turns:,}", ago(each.pushed_at)))
        for each in there.manifests
    ]
    if rows:
        say(columns(("NAME", "KIND", "AGENT", "TURNS", "PUSHED"), rows))
    for problem in there.problems:
        print_error(problem)
    note("name threads to pull them, or give --all" if rows else "there is no thread yet")


def _about(remote: Remote, dry_run: bool) -> dict[str, Any]:
    return {"url": remote.url, "encrypted": remote.is_encrypted, "dry_run": dry_run}


def _pushed_object(each: PushResult) -> dict[str, Any]:
    from clew.hosts.transfer.secret_scan import as_objects

    return {
        "name": each.name,
        "state": each.state,
        "number": each.number,
        "turns": each.turns,
        "sent_bytes": each.sent.size_bytes,
        "sent_objects": each.sent.objects,
        "new_bytes": each.new_bytes,
        "secrets": as_objects(each.secrets),
        "signed": each.signed,
        "error": None,
    }


def _pulled_object(each: PullResult) -> dict[str, Any]:
    sessions = each.imported.sessions if each.imported is not None else ()
    return {
        "name": each.name,
        "state": each.state,
        "number": each.number,
        "turns": each.turns,
        "new_ids": each.imported.renewed if each.imported is not None else False,
        "signer": each.signer,
        "sessions": [session_object(session) for session in sessions],
        "notes": list(each.imported.notes) if each.imported is not None else [],
        "error": None,
    }


def _error_object(name: str, error: ClewError) -> dict[str, Any]:
    state = "conflict" if error.code == "conflict" else "failed"
    return {"name": name or "?", "state": state, "error": error_object(error)}
