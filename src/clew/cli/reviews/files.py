"""`clew review export` and `import`: reviews as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON
from clew.cli.reviews.round import complete_review
from clew.cli.ui.files import output_path, write_output
from clew.cli.ui.printing import harmless, note, plural, print_json, say, stamp
from clew.errors import ClewError, UsageError

if TYPE_CHECKING:
    from typing import Any

    from clew.api.client import Client


@click.command()
@click.argument("review_id", metavar="ID", shell_complete=complete_review)
@click.option(
    "--format", "kind", type=click.Choice(["md", "json"]), default="md", show_default=True, help="Markdown, or JSON."
)
@click.option("--output", metavar="FILE", help="Write it there.  [default: stdout]")
@click.option("--force", is_flag=True, help="Write over a FILE that is there.")
@click.option("--with-secrets", is_flag=True, help="As it is: else what is a secret, or looks like one, is blanked.")
def export(review_id: str, kind: str, output: str | None, force: bool, with_secrets: bool) -> None:
    """Write a review as Markdown, for a pull request, or as JSON: all that is known of it. Secrets are blanked.

    \b
      clew review export latest --output review.md
      clew review export latest | gh pr comment --body-file -
    """
    path = output_path(output, force=force) if output is not None else None

    async def work(client: Client) -> tuple[str | dict[str, Any], list[str]]:
        from clew.api.reviews import markdown, review_json

        state = await client.reviews.find(await client.reviews.resolve(review_id))
        made = markdown(state) if kind == "md" else review_json(state, await client.reviews.sessions(state), stamp)
        return (made, []) if with_secrets else client.blanked(made)

    made, kinds = with_client(work, reads=True)
    if kinds:
        note(f"blanked {plural(len(kinds), 'secret')}: {', '.join(dict.fromkeys(kinds))}")
    if path is None:
        if isinstance(made, str):
            say(harmless(made).rstrip("\n"))
        else:
            print_json(made)
        return
    text = harmless(made) if isinstance(made, str) else _as_text(made)
    write_output(path, text.encode("utf-8", "backslashreplace"), force=force)
    note(f"wrote {harmless(str(path))}")


def _as_text(value: dict[str, Any]) -> str:
    import json

    try:
        text = json.dumps(value, ensure_ascii=False, indent=2)
        text.encode("utf-8")
    except UnicodeEncodeError:  # half a character, as agents sometimes cut them
        text = json.dumps(value, indent=2)
    return f"{text}\n"


@click.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--cwd",
    metavar="DIR",
    help="Where the older tool ran the agent.  [default: what the file says, else this directory]",
)
@AS_JSON
def import_(files: tuple[str, ...], cwd: str | None, as_json: bool) -> int:
    """Take over reviews that an older tool kept as files, one JSON file a review.

    A session is gone on with where its own file is found and bears it out; without it the next round starts fresh,
    with what the old file tells. A file that cannot be taken over is named, and the others are imported all the same.

    \b
      clew review import ~/.reviews/sessions/*.json --cwd ~/shop
    """
    failures: list[ClewError] = []

    async def work(client: Client) -> list[dict[str, Any]]:
        from clew.hosts.reviews.imports import AGENT, import_file
        from clew.hosts.validation import named_path

        model = client.settings.model_of(AGENT)
        results: list[dict[str, Any]] = []
        for name in files:
            try:
                made = await import_file(client.engine, named_path(name), cwd, model=model)
            except UsageError as error:
                failures.append(error)
                body = {"code": error.code, "message": error.message, "hint": error.hint}
                results.append({"file": name, "id": None, "error": body})
                if not as_json:
                    _tell(error)
                continue
            results.append(
                {
                    "file": name,
                    "id": made.review_id,
                    "rounds": made.rounds,
                    "sessions": dict(made.sessions),
                    "warnings": list(made.warnings),
                    "error": None,
                }
            )
            if not as_json:
                _tell_imported(results[-1])
        return results

    results = with_client(work)
    if as_json:
        print_json(results)
        for error in failures:
            _tell(error)
    return failures[0].exit_code if failures else 0


def _tell(error: ClewError) -> None:
    from clew.cli import error_report

    error_report.print_error(error)


def _tell_imported(made: dict[str, Any]) -> None:
    adopted = [model for model, went_well in made["sessions"].items() if went_well]
    sessions = f", sessions: {', '.join(adopted)}" if adopted else ", no session: the next round starts fresh"
    say(harmless(f"{made['id']}  {plural(made['rounds'], 'round')}{sessions}"))
    for warning in made["warnings"]:
        note(f"  {harmless(warning)}")
