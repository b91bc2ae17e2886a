"""The command `clew threads import`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON
from clew.cli.threads.export import PASSPHRASE_FILE, read_key_file, read_passphrase, signature_file
from clew.cli.ui.formatting import agent_words, harmless, plural
from clew.cli.ui.printing import note, print_json, say
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.config import Settings
    from clew.hosts.transfer.imports import ImportedSession, ImportResult
    from clew.hosts.transfer.signatures import Signers
    from clew.store.transfer.codec import PortableThread

HEAD_BYTES = 1000  # enough of a file to recognise the state file of a pair
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
    from clew.config import load
    from clew.hosts.validation import existing_dir

    if passphrase_file is not None and identity is not None:
        raise UsageError("--passphrase-file and --identity are two ways to decrypt it.", hint="Give one of them.")
    work_dir = existing_dir(cwd)
    settings = load(os.environ, Path(work_dir))
    thread = read_file(file, passphrase_file, identity, accepted(settings, signers))

    async def work(client: Client) -> ImportResult:
        from clew.core.thread import Permissions, Trust
        from clew.hosts.transfer.imports import import_thread

        return await import_thread(
            client.engine,
            thread,
            cwd=work_dir,
            name=name,
            permissions=Permissions(client.settings.of("permissions")),
            trust=Trust(client.settings.of("trust")),
            dry_run=dry_run,
        )

    _print(with_client(work, work_dir=work_dir), dry_run=dry_run, as_json=as_json)


def accepted(settings: Settings, file: str | None) -> Signers | None:
    """The signers from the option, or else from the setting: one of them must have signed. None: no check."""
    from clew.hosts.transfer.signatures import signers

    entries = (file,) if file is not None else settings.of("remote.signers")
    return signers(entries, os.environ) if entries else None


def read_file(name: str, passphrase_file: str | None, identity: str | None, signers: Signers | None) -> PortableThread:
    from clew.hosts.transfer import encryption
    from clew.hosts.transfer.export_file import MAX_FILE_BYTES, read_export
    from clew.hosts.validation import named_path, read_plain

    path = named_path(name)
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else "does not exist"
            raise UsageError(f"{path} {what}.", hint="clew threads export writes one, such as fix-login.clew.")
        raw = read_plain(path, MAX_FILE_BYTES)
        if len(raw) > MAX_FILE_BYTES:
            raise UsageError(f"{path} is too large.", hint=f"No export is larger than {MAX_FILE_BYTES:,} bytes.")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", hint="Check that you may read it.") from error
    if signers is not None:
        note(f"signed by {harmless(_verified(path, raw, signers))}")
    if encryption.is_encrypted(raw):
        if identity is not None:
            raw = encryption.decrypt_as(read_identity(identity), raw)
        elif encryption.wants_passphrase(raw):
            raw = encryption.decrypt_with(read_passphrase(passphrase_file, confirm=False), raw)
        else:
            raise UsageError("The file is encrypted for somebody's key.", hint="Give yours with --identity.")
    if raw.lstrip()[:1] == b"{" and b'"sessionId"' in raw[:HEAD_BYTES]:
        raise UsageError(f"{path} is the state file of a pair.", hint=f"clew pair --session-file {path} continues it.")
    return read_export(raw)


def _verified(path: Path, raw: bytes, signers: Signers) -> str:
    """Checks the signature and returns who signed the file. Raises UsageError."""
    from clew.hosts.transfer.signatures import FOR_A_FILE, MAX_SIGNATURE_BYTES, unsigned, verify
    from clew.hosts.validation import read_plain

    beside = signature_file(path)
    try:
        signature = read_plain(beside, MAX_SIGNATURE_BYTES)
    except FileNotFoundError as error:
        raise unsigned(str(path)) from error
    except OSError as error:
        raise UsageError(f"{beside} cannot be read: {error.strerror}.", hint="Nothing was stored.") from error
    return verify(signers, FOR_A_FILE, raw, signature, str(path))


def read_identity(file: str) -> str:
    return read_key_file(file, "identity", hint="age-keygen writes one; or name your SSH key.")


def _print(made: ImportResult, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "threads": [{"name": thread.name, "id": thread.id, "cwd": thread.cwd} for thread in made.threads],
                "turns": made.turns,
                "new_ids": made.renewed,
                "sessions": [
                    session_object(each) | {"file": str(each.path) if each.path is not None else None}
                    for each in made.sessions
                ],
                "notes": list(made.notes),
            }
        )
        return
    would = "would be imported" if dry_run else "imported"
    for thread in made.threads:
        say(harmless(f"{thread.name}  {thread.cwd}"))
    note(f"{would}: {plural(made.turns, 'turn')}{', as a copy with new ids' * made.renewed}")
    note_sessions(made)


def session_object(session: ImportedSession) -> dict[str, Any]:
    return {
        "part": session.part,
        "agent": session.agent,
        "model": session.model or None,
        "resumable": session.resumable,
        "why": session.why or None,
    }


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
