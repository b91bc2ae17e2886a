"""`clew review export` and `import`: reviews as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.error_report import error_object, print_error
from clew.cli.options import AS_JSON, complete_review
from clew.cli.ui.files import output_path, write_output
from clew.cli.ui.formatting import harmless, plural
from clew.cli.ui.printing import json_text, note, print_json, say
from clew.errors import ClewError, UsageError

if TYPE_CHECKING:
    from clew.api.client import Client


@click.command()
@click.argument("review_id", metavar="ID", shell_complete=complete_review)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["md", "json", "sarif"]),
    default="md",
    show_default=True,
    help="Markdown, JSON, or SARIF 2.1.0.",
)
@click.option("--output", metavar="FILE", help="Write to this file.  [default: stdout]")
@click.option("--force", is_flag=True, help="Replace a FILE that exists.")
@click.option("--with-secrets", is_flag=True, help="Do not blank what is a secret, or looks like one.")
def export(review_id: str, kind: str, output: str | None, force: bool, with_secrets: bool) -> None:
    """Write a review as Markdown, for a pull request; as JSON with everything that is known; or as SARIF, for a code
    scanning service or an editor. Secrets are blanked.

    \b
      clew review export latest --output review.md
      clew review export latest --format sarif --output review.sarif
      clew review export latest | gh pr comment --body-file -
    """
    path = output_path(output, force=force) if output is not None else None

    async def work(client: Client) -> tuple[str | dict[str, Any], list[str]]:
        from clew.api.reviews import markdown, review_shape, sarif

        state = await client.reviews.find(await client.reviews.resolve(review_id))
        sessions = await client.reviews.sessions(state)
        made: Any = markdown(state) if kind == "md" else review_shape(state, sessions).to_json()
        made, kinds = (made, []) if with_secrets else client.blanked(made)
        return sarif(made) if kind == "sarif" else made, kinds

    made, kinds = with_client(work, reads=True)
    if kinds:
        note(f"blanked {plural(len(kinds), 'secret')}: {', '.join(dict.fromkeys(kinds))}")
    if path is None:
        if isinstance(made, str):
            say(harmless(made).rstrip("\n"))
        else:
            print_json(made)
        return
    text = harmless(made) if isinstance(made, str) else f"{json_text(made, indent=2)}\n"
    write_output(path, text.encode("utf-8", "backslashreplace"), force=force)
    note(f"wrote {harmless(str(path))}")


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--cwd",
    metavar="DIR",
    help="The directory in which the other tool ran the agent.  [default: as the file says, else the one with its"
    " .reviews folder, else the current one]",
)
@AS_JSON
def import_(files: tuple[str, ...], cwd: str | None, as_json: bool) -> int:
    """Import reviews that another tool stored as JSON files: the files and folders of mcp-claude-reviewer, and single
    files with all rounds of a review.

    FILE is the folder of a session, the session.json in it, or a single file. Comments arrive as findings. If the
    file of the agent's session exists and agrees with the review, the next round resumes the session. Otherwise it
    starts fresh, with what the imported file says. A file that cannot be imported, or of which nothing was understood,
    is reported, and the others still are.

    \b
      clew review import .reviews/sessions/*
      clew review import ~/old/2025-07-01-003/session.json --cwd ~/shop
    """
    failures: list[ClewError] = []

    async def work(client: Client) -> list[dict[str, Any]]:
        from clew.api.reviews import import_file, imported_review

        results: list[dict[str, Any]] = []
        for name in files:
            try:
                made = await import_file(client, name, cwd)
            except UsageError as error:
                failures.append(error)
                results.append({"file": name, "id": None, "error": error_object(error)})
                if not as_json:
                    print_error(error)
                continue
            results.append({"file": name, **imported_review(made).to_json(), "error": None})
            if not as_json:
                _print_imported(results[-1])
        return results

    results = with_client(work)
    if as_json:
        print_json(results)
        for error in failures:
            print_error(error)
    return failures[0].exit_code if failures else 0


def _print_imported(made: dict[str, Any]) -> None:
    adopted = [model for model, was_adopted in made["sessions"].items() if was_adopted]
    sessions = f", sessions: {', '.join(adopted)}" if adopted else ", no session: the next round starts fresh"
    say(harmless(f"{made['id']}  {plural(made['rounds'], 'round')}, {plural(made['findings'], 'finding')}{sessions}"))
    for warning in made["warnings"]:
        note(f"  {harmless(warning)}")
    for words in made["left_out"]:
        note(f"  left out: {harmless(words)}")
