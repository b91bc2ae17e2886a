"""The command `clew threads import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON
from clew.cli.threads.export import PASSPHRASE_FILE, read_key_file, read_passphrase, signature_file
from clew.cli.ui.formatting import agent_words, harmless, plural
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.progress import with_progress
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.exports import ImportResult

SIGNERS = click.option(
    "--signers",
    metavar="FILE",
    help="Accept only what a key in FILE signed: public keys, or ssh's allowed signers.  [default: remote.signers]",
)


@click.command("import")
@click.argument("file", type=click.Path())
@click.option("--cwd", metavar="DIR", default=".", help="Its work directory.  [default: the current one]")
@click.option("--name", metavar="NAME", help="Its new name.  [default: its own name, with a number if that is taken]")
@PASSPHRASE_FILE
@click.option("--identity", metavar="FILE", help="Your age identity, or SSH private key, to decrypt the file with.")
@SIGNERS
@click.option("--dry-run", is_flag=True, help="Check it, and only show what would be done.")
@AS_JSON
def import_(
    file: str,
    cwd: str,
    name: str | None,
    passphrase_file: str | None,
    identity: str | None,
    signers: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Read a thread that `threads export` wrote, to continue it here.

    Its sessions are written where the agents look for them, if they hold exactly what the thread says, so that the next
    turn resumes. Otherwise the next turn starts fresh, with the whole history. The thread gets no more permissions than
    your own settings give a new thread.

    \b
      clew threads import fix-login.clew --cwd ~/shop
    """
    if passphrase_file is not None and identity is not None:
        raise UsageError("--passphrase-file and --identity are two ways to decrypt it.", hint="Give one of them.")
    from clew.api import exports
    from clew.api.files import existing_dir, named_path

    path, work_dir = named_path(file), existing_dir(cwd)
    content = _read_file(path)
    options = exports.ImportOptions(
        cwd=work_dir,
        name=name,
        identity=read_identity(identity) if identity is not None else None,
        signers=None if signers is None else (signers,),
        dry_run=dry_run,
        file=str(path),
    )
    if identity is None and exports.wants_passphrase(content):
        options = options.replace(passphrase=read_passphrase(passphrase_file, confirm=False))

    async def work(client: Client) -> ImportResult:
        is_checked = signers is not None or client.settings.of("remote.signers")
        signature = _read_signature(path) if is_checked else None
        return await with_progress(exports.import_file(client, content, options.replace(signature=signature)))

    _print(with_client(work, work_dir=work_dir), dry_run=dry_run, as_json=as_json)


def _read_file(path: Path) -> bytes:
    from clew.api.exports import MAX_FILE_BYTES
    from clew.api.files import read_plain

    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else "does not exist"
            raise UsageError(f"{path} {what}.", hint="clew threads export writes one, such as fix-login.clew.")
        return read_plain(path, MAX_FILE_BYTES)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", hint="Check that you may read it.") from error


def _read_signature(path: Path) -> bytes | None:
    """The signature of the file. None: it has none."""
    from clew.api.exports import MAX_SIGNATURE_BYTES
    from clew.api.files import read_plain

    beside = signature_file(path)
    try:
        return read_plain(beside, MAX_SIGNATURE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{beside} cannot be read: {error.strerror}.", hint="Nothing was stored.") from error


def read_identity(file: str) -> str:
    return read_key_file(file, "identity", hint="age-keygen writes one; or name your SSH key.")


def _print(made: ImportResult, *, dry_run: bool, as_json: bool) -> None:
    from clew.api.exports import shape_of

    if made.signer is not None:
        note(f"signed by {harmless(made.signer)}")
    if as_json:
        print_json(shape_of(made, dry_run=dry_run).to_json())
        return
    would = "would be imported" if dry_run else "imported"
    for thread in made.threads:
        say(harmless(f"{thread.name}  {thread.cwd}"))
    note(f"{would}: {plural(made.turns, 'turn')}{', as a copy with new ids' * made.renewed}")
    note_sessions(made)


def note_sessions(made: ImportResult, whose: str = "") -> None:
    """Says what the next turn will do, and which permissions were narrowed. Each line begins with `whose`."""
    for each in made.sessions:
        agent = agent_words(each.agent, each.model)
        who = f"the {each.part} ({agent})" if each.part is not None else agent
        note(
            f"{whose}the next turn of {who} resumes its session"
            if each.resumable
            else f"{whose}the next turn of {who} starts fresh: {harmless(each.why)}"
        )
    if not made.sessions:
        note(f"{whose}it has no session: the next turn starts fresh, with the whole history")
    for words in made.notes:
        note(f"{whose}{words}")
