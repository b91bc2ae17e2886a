"""`clew threads merge`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew.cli.options import AS_JSON
from clew.cli.output import harmless, note, plural, print_json, say
from clew.cli.session import complete_thread, patiently, with_client

if TYPE_CHECKING:
    from clew.client import Client
    from clew.hosts.merging import Merged


@click.command()
@click.argument("a", shell_complete=complete_thread)
@click.argument("b", shell_complete=complete_thread)
@click.option("--name", metavar="NEW", help="Call the new thread so.  [default: A-B, with a number if that is taken]")
@click.option("--agent", metavar="AGENT", help="Who answers in it.  [default: A's]")
@click.option("--model", metavar="MODEL", help="The model.  [default: A's, or B's if that has the agent]")
@click.option("--cwd", metavar="DIR", help="Its work directory.  [default: A's]")
@AS_JSON
def merge(a: str, b: str, as_json: bool, **wanted: str | None) -> None:
    """Make one thread out of two. Both stay as they are.

    It holds the turns that both begin with once, then those of A, then those of B, each under a line that says where
    it comes from, and last a brief that the agent reads with its first turn: what each thread set out to do, and which
    files each has changed. Files are not merged. Permissions and trust are no wider than those of both. A pair is two
    conversations: name one of them, pair-NAME-instructor or pair-NAME-worker.

    \b
      clew threads merge fix-login fix-login-codex --name login
      clew ask -t login "Which of the two ways is better?"
    """

    async def work(client: Client) -> Merged:
        from clew.hosts.merging import Wanted
        from clew.hosts.merging import merge as merged

        return await patiently("merging…", merged(client.engine, a, b, Wanted(**wanted)))

    made = with_client(work)
    if as_json:
        print_json(_object(made))
    else:
        _tell(made, cwd_given=wanted["cwd"] is not None)


def _tell(made: Merged, *, cwd_given: bool) -> None:
    one, other = made.of
    say(made.thread.name)
    common = f"{plural(made.common, 'turn')} in common, " if made.common else ""
    note(f"{common}{made.own[0]:,} of {one.name}, {made.own[1]:,} of {other.name}, and a brief")
    if one.cwd != other.cwd and not cwd_given:
        note(f"{other.name} works in another directory; the new thread in {harmless(made.thread.cwd)}")
    if made.chars > made.shown_chars:
        note(f"it has {made.chars:,} characters: a session is shown the last {made.shown_chars:,} (transcript_limit)")
    note(f'go on with clew ask -t {made.thread.name} "…"')


def _object(made: Merged) -> dict[str, Any]:
    return {
        "name": made.thread.name,
        "id": made.thread.id,
        "of": [{"id": thread.id, "name": thread.name} for thread in made.of],
        "agent": made.thread.agent,
        "model": made.thread.model,
        "cwd": made.thread.cwd,
        "common_turns": made.common,
        "own_turns": list(made.own),
        "size_chars": made.chars,
        "files": [{"path": file.path, "step": file.step} for file in made.files],
    }
