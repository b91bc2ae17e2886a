"""`clew threads import`"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew.cli.options import AS_JSON
from clew.cli.output import harmless, note, plural, print_json, say
from clew.cli.session import with_client
from clew.cli.threads_export import PASSPHRASE_FILE, read_passphrase, signature_file
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.client import Client
    from clew.config import Settings
    from clew.hosts.portable_file import Unpacked
    from clew.hosts.portable_import import Imported
    from clew.hosts.signing import Signers

IDENTITY_MOST = 100_000
HEAD_BYTES = 1000
SIGNERS = click.option(
    "--signers",
    metavar="FILE",
    help="Only what is signed by a key in FILE: public keys, or ssh's allowed signers.  [default: remote.signers]",
)


@click.command("import")
@click.argument("file", type=click.Path())
@click.option("--cwd", metavar="DIR", default=".", help="Its work directory here.  [default: the one you are in]")
@click.option("--name", metavar="NAME", help="Call it so.  [default: its own name, with a number if that is taken]")
@PASSPHRASE_FILE
@click.option(
    "--identity", metavar="FILE", help="Your age identity, or SSH private key, for a file that is yours to open."
)
@SIGNERS
@click.option("--dry-run", is_flag=True, help="Check it, and only say what would come of it.")
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
    """Read a thread that `threads export` wrote, and go on with it here.

    Its sessions are put where the agents look for them, if they hold what the thread says, so that the next turn
    resumes; where that cannot be, it starts fresh with the whole history. It may do no more than your own settings
    allow a new thread.

    \b
      clew threads import fix-login.clew --cwd ~/shop
    """
    from clew.config import load
    from clew.hosts.checks import existing_dir

    if passphrase_file is not None and identity is not None:
        raise UsageError("--passphrase-file and --identity are two ways to open it.", hint="Give one of them.")
    work_dir = existing_dir(cwd)
    settings = load(os.environ, Path(work_dir))
    unpacked = read_file(file, passphrase_file, identity, accepted(settings, signers))

    async def work(client: Client) -> Imported:
        from clew.core.thread import Permissions, Trust
        from clew.hosts.portable_import import import_thread

        return await import_thread(
            client.engine,
            unpacked,
            cwd=work_dir,
            name=name,
            permissions=Permissions(client.settings.of("permissions")),
            trust=Trust(client.settings.of("trust")),
            dry_run=dry_run,
        )

    _tell(with_client(work, work_dir=work_dir), dry_run=dry_run, as_json=as_json)


def accepted(settings: Settings, file: str | None) -> Signers | None:
    """Whose signature is required: by the flag, else by the setting. None: nobody need sign."""
    from clew.hosts.signing import signers

    entries = (file,) if file is not None else settings.of("remote.signers")
    return signers(entries, os.environ) if entries else None


def read_file(name: str, passphrase_file: str | None, identity: str | None, signers: Signers | None) -> Unpacked:
    from clew.hosts import sealing
    from clew.hosts.checks import named_path, read_plain
    from clew.hosts.portable_file import FILE_MOST, unpack

    path = named_path(name)
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else "is not there"
            raise UsageError(f"{path} {what}.", hint="clew threads export writes one, such as fix-login.clew.")
        raw = read_plain(path, FILE_MOST)
        if len(raw) > FILE_MOST:
            raise UsageError(f"{path} is too large.", hint=f"No export is larger than {FILE_MOST:,} bytes.")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", hint="See that it is yours to read.") from error
    if signers is not None:
        note(f"signed by {harmless(_verified(path, raw, signers))}")
    if sealing.is_sealed(raw):
        if identity is not None:
            raw = sealing.open_as(read_identity(identity), raw)
        elif sealing.wants_passphrase(raw):
            raw = sealing.open_with(read_passphrase(passphrase_file, confirm=False), raw)
        else:
            raise UsageError("The file is encrypted for somebody's key.", hint="Give yours with --identity.")
    if raw.lstrip()[:1] == b"{" and b'"sessionId"' in raw[:HEAD_BYTES]:
        raise UsageError(
            f"{path} is the state file of a pair.", hint=f"clew pair --session-file {path} goes on with it."
        )
    return unpack(raw)


def _verified(path: Path, raw: bytes, signers: Signers) -> str:
    """Who signed it. Raises UsageError."""
    from clew.hosts.checks import read_plain
    from clew.hosts.signing import OF_A_FILE, SIGNATURE_MOST, unsigned, verify

    beside = signature_file(path)
    try:
        signature = read_plain(beside, SIGNATURE_MOST)
    except FileNotFoundError as error:
        raise unsigned(str(path)) from error
    except OSError as error:
        raise UsageError(f"{beside} cannot be read: {error.strerror}.", hint="Nothing was stored.") from error
    return verify(signers, OF_A_FILE, raw, signature, str(path))


def read_identity(file: str) -> str:
    from clew.hosts.checks import named_path

    try:
        with named_path(file).open(encoding="utf-8") as opened:
            return opened.read(IDENTITY_MOST)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(
            f"The identity file {file} cannot be read: {why}.", hint="age-keygen writes one; or name your SSH key."
        ) from error


def _tell(made: Imported, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "threads": [{"name": thread.name, "id": thread.id, "cwd": thread.cwd} for thread in made.threads],
                "turns": made.turns,
                "new_ids": made.renewed,
                "sessions": [
                    {
                        "part": each.part,
                        "agent": each.agent,
                        "model": each.model or None,
                        "resumable": each.resumable,
                        "why": each.why or None,
                        "file": str(each.path) if each.path is not None else None,
                    }
                    for each in made.sessions
                ],
                "notes": list(made.notes),
            }
        )
        return
    would = "would be imported" if dry_run else "imported"
    for thread in made.threads:
        say(harmless(f"{thread.name}  {thread.cwd}"))
    note(f"{would}: {plural(made.turns, 'turn')}{', as a copy under new ids' * made.renewed}")
    tell_sessions(made)


def tell_sessions(made: Imported, whose: str = "") -> None:
    """What the next turn will do, and what was narrowed. `whose` stands before each line."""
    for each in made.sessions:
        who = harmless(" ".join(part for part in (each.agent, each.model) if part))
        who = f"the {each.part} ({who})" if each.part is not None else who
        note(
            f"{whose}the next turn of {who} resumes its session"
            if each.resumable
            else f"{whose}the next turn of {who} starts fresh: {harmless(each.why)}"
        )
    if not made.sessions:
        note(f"{whose}no session came along: the next turn starts fresh, with the whole history")
    for words in made.notes:
        note(f"{whose}{words}")
