"""The output of `clew threads push` and `pull`: the result of each thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clew.cli.error_report import print_error
from clew.cli.threads.export import note_secrets
from clew.cli.threads.imports import note_sessions
from clew.cli.ui.formatting import ago, harmless, plural
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.tables import columns
from clew.errors import ClewError

if TYPE_CHECKING:
    from clew.api.remotes import Pulled, PullResult, Pushed, PushResult, RemoteContent

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


def print_pushed(pushed: Pushed, *, as_json: bool) -> int:
    def print_one(each: PushResult, whose: str) -> None:
        say(f"{whose}  {_would(PUSHED[each.state], pushed.dry_run)}")
        if each.state == "pushed" and pushed.dry_run:
            note(f"{whose}: {plural(each.new_bytes, 'byte')} would be compressed and sent")
        elif each.state == "pushed":
            sent = f"sent {plural(each.sent.size_bytes, 'byte')}{', signed' * each.signed}"
            note(f"{whose}: {plural(each.turns, 'turn')}; {sent}")
        note_secrets(each.secrets, f"{whose} holds")

    return _print_results(pushed, print_one, as_json=as_json)


def print_pulled(pulled: Pulled, *, as_json: bool) -> int:
    def print_one(each: PullResult, whose: str) -> None:
        say(f"{whose}  {_would(PULLED[each.state], pulled.dry_run)}")
        if each.signer is not None:
            note(f"{whose}: signed by {harmless(each.signer)}")
        if each.imported is not None:
            note_sessions(each.imported, f"{whose}: ")

    return _print_results(pulled, print_one, as_json=as_json)


def _print_results(done: Pushed | Pulled, print_one: Callable[[Any, str], None], *, as_json: bool) -> int:
    """Prints the result of each thread, and returns the exit code of the first error."""
    if as_json:
        print_json(done.to_shape().to_json())
    else:
        for name, each in done.threads:
            if not isinstance(each, ClewError):
                print_one(each, harmless(each.name))
                continue
            if name not in each.message:
                each.message = f"{name}: {each.message}"
            print_error(each)
    return next((each.exit_code for _, each in done.threads if isinstance(each, ClewError)), 0)


def _would(words: str, dry_run: bool) -> str:
    return f"would be {words}" if dry_run and words.split()[0] in ("pushed", "pulled", "updated") else words


def print_listing(there: RemoteContent, *, as_json: bool) -> None:
    if as_json:
        print_json(there.to_shape().to_json())
        return
    rows = [
        tuple(harmless(cell) for cell in (each.name, each.kind, each.agent, f"{each.turns:,}", ago(each.pushed_at)))
        for each in there.threads
    ]
    if rows:
        say(columns(("NAME", "KIND", "AGENT", "TURNS", "PUSHED"), rows))
    for problem in there.problems:
        print_error(problem)
    note("name threads to pull them, or give --all" if rows else "there is no thread yet")
