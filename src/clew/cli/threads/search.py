"""The command `clew threads search`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON, OF_AGENT, OF_PROJECT
from clew.cli.threads.listing import OFFSET, check_restrictions, in_project
from clew.cli.ui.formatting import ago, harmless, one_line, speaker
from clew.cli.ui.printing import has_colours, note, print_json, say
from clew.core.ids import SHORT_ID
from clew.core.thread import KINDS
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.views import SearchHit
    from clew.core.search import Snippet

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


@click.command()
@click.argument("words", metavar="WORDS...", nargs=-1, required=True)
@click.option(
    "--kind", type=click.Choice([*KINDS, "all"]), default="all", show_default=True, help="Only threads of this kind."
)
@OF_PROJECT
@OF_AGENT
@click.option("--all", "archived", is_flag=True, help="Also archived turns: those that were truncated or asked again.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Show at most this many.")
@OFFSET
@AS_JSON
def search(
    words: tuple[str, ...],
    kind: str,
    project: str | None,
    agent: str | None,
    archived: bool,
    limit: int,
    offset: int,
    as_json: bool,
) -> None:
    """Find turns by their words, in threads of every kind; the newest turns come first.

    All words must occur in the turn, in any order and any case. `"…"` finds words next to each other, and `word*` finds
    any word with that beginning. Words joined by punctuation are found as they are written: open_run, src/clew.

    \b
      clew threads search login fail
      clew threads search '"login fails"' 'time*'
    """
    text = " ".join(words)
    if not text.strip():
        raise UsageError("There are no words to search for.", hint="For example: clew threads search login fail")

    async def work(client: Client) -> None:
        hits = await client.views.search(
            text,
            kind=None if kind == "all" else kind,
            project=in_project(project),
            agent=agent,
            archived=archived,
            limit=limit,
            offset=offset,
        )
        if not hits:
            check_restrictions(client, agent, project)
        if as_json:
            print_json([_object(hit) for hit in hits])
        elif hits:
            say("\n\n".join(_lines(hit) for hit in hits))
        else:
            note(f"Nothing found for {one_line(text, 60)}.")

    with_client(work, reads=True)


def _lines(hit: SearchHit) -> str:
    heading = [hit.thread.name, f"({hit.thread.kind})", hit.turn_id[:SHORT_ID], speaker(hit), ago(hit.created_at)]
    return f"{'  '.join([*heading, *(['(archived)'] if hit.archived else [])])}\n    {_marked(hit.snippet)}"


def _marked(snippet: Snippet) -> str:
    """Hits are bold on a terminal with colours, else between marks. The text itself cannot control the terminal."""
    before, after = (BOLD, PLAIN) if has_colours(sys.stdout) else ("»", "«")
    shown, place = "", 0
    for start, end in snippet.hits:
        shown += f"{harmless(snippet.text[place:start])}{before}{harmless(snippet.text[start:end])}{after}"
        place = end
    return shown + harmless(snippet.text[place:])


def _object(hit: SearchHit) -> dict[str, Any]:
    from clew.api.wire.search import found_text

    return found_text(hit).to_json() | {"snippet": harmless(hit.snippet.text)}
