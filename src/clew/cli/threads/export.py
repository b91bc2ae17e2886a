"""`clew threads export`"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew.cli.options import AS_JSON
from clew.cli.output import harmless, note, plural, print_json, say
from clew.cli.session import complete_thread, with_client
from clew.errors import Conflict, UsageError

if TYPE_CHECKING:
    from clew.client import Client
    from clew.hosts.outgoing import Secret
    from clew.hosts.portable import Exported
    from clew.hosts.signing import Signer

VARIABLE = "CLEW_PASSPHRASE"
PASSPHRASE_FILE = click.option(
    "--passphrase-file",
    metavar="FILE",
    help=f"The passphrase is its first line.  [default: {VARIABLE}, else you are asked]",
)
SIGN = click.option(
    "--sign", metavar="KEY", help="Sign it with this SSH key; a public one, if an agent holds the private one."
)


@click.command()
@click.argument("name", shell_complete=complete_thread)
@click.option("--output", metavar="FILE", help="Write it there.  [default: NAME.clew, or NAME.clew.age, here]")
@click.option("--force", is_flag=True, help="Write over a FILE that is there.")
@click.option("--encrypt", is_flag=True, help="With a passphrase. --passphrase-file says so, too.")
@PASSPHRASE_FILE
@click.option(
    "--recipient",
    "recipients",
    metavar="KEY",
    multiple=True,
    help="For the holder of this key instead: age1…, or an SSH public key. May be given more than once.",
)
@click.option("--redact", is_flag=True, help="The history alone, with what looks like a secret blanked.")
@click.option("--with-secrets", is_flag=True, help="Even if it holds what is a secret, or looks like one.")
@SIGN
@AS_JSON
def export(
    name: str,
    output: str | None,
    force: bool,
    encrypt: bool,
    passphrase_file: str | None,
    recipients: tuple[str, ...],
    redact: bool,
    with_secrets: bool,
    sign: str | None,
    as_json: bool,
) -> None:
    """Write a thread to a file, to go on elsewhere: its history, its state, and its agents' sessions.

    Of a pair, both threads, also by the pair's name. `clew threads import` reads it, and so does any unzip; an
    encrypted one opens with age. With --sign, FILE.sig is its signature.

    \b
      clew threads export fix-login --encrypt
      clew threads export fix-login --redact --output for-the-issue.clew
    """
    encrypt = encrypt or passphrase_file is not None
    if encrypt and recipients:
        raise UsageError("--encrypt and --recipient are two ways to encrypt.", hint="Give one of them.")
    if redact and with_secrets:
        raise UsageError("--redact blanks secrets, --with-secrets keeps them.", hint="Give one of them.")
    if recipients:
        from clew.hosts.sealing import check_recipients

        check_recipients(recipients)
    by = _signer(sign) if sign is not None else None
    path = _checked(output, force=force) if output is not None else None
    passphrase = read_passphrase(passphrase_file, confirm=True) if encrypt else None

    async def work(client: Client) -> Exported:
        from clew.hosts.portable import export_thread

        return await export_thread(
            client.engine, name, os.environ, redacted=redact, with_secrets=with_secrets or redact
        )

    made = with_client(work, reads=True)
    place = path or Path(f"{made.name}.clew{'.age' if encrypt or recipients else ''}")
    content = _sealed(made.content, passphrase, recipients)
    if by is not None:
        from clew.hosts.signing import OF_A_FILE
        from clew.hosts.signing import sign as make_signature

        _check(place, force=force)
        _write(signature_file(place), make_signature(by, OF_A_FILE, content), force=force)
    _write(place, content, force=force)
    if by is None and force:
        _remove_signature(signature_file(place))
    _tell(made, place, len(content), encrypted=bool(encrypt or recipients), as_json=as_json)


def _signer(key: str) -> Signer:
    from clew.hosts.signing import signer

    return signer(key, os.environ)


def signature_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sig")


def _remove_signature(path: Path) -> None:
    """It was the replaced file's, and fits no other."""
    if not path.is_file():
        return
    try:
        path.unlink()
    except OSError as error:
        raise UsageError(f"{path} cannot be removed: {error.strerror}.", hint="It signs the file before.") from error
    note(f"removed {harmless(str(path))}: it was the signature of the file before")


def _sealed(content: bytes, passphrase: str | None, recipients: tuple[str, ...]) -> bytes:
    if passphrase is None and not recipients:
        return content
    from clew.hosts import sealing

    return sealing.seal_with(passphrase, content) if passphrase is not None else sealing.seal_for(recipients, content)


def read_passphrase(file: str | None, *, confirm: bool) -> str:
    """From the file, the environment or the person, in this order."""
    if file is not None:
        from clew.hosts.checks import named_path

        try:
            lines = named_path(file).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise UsageError(
                f"The passphrase file {file} cannot be read: {why}.", hint="Its first line is the passphrase."
            ) from error
        found = lines[0] if lines else ""
    else:
        found = os.environ.get(VARIABLE, "") or _asked(confirm=confirm)
    if not found:
        raise UsageError("The passphrase is empty.", hint="It is the first line of the file, or what you type.")
    return found


def _asked(*, confirm: bool) -> str:
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("There is no passphrase.", hint=f"Give --passphrase-file, or set {VARIABLE}.")
    with _stopped_at_once():
        return str(click.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm, err=True))


@contextlib.contextmanager
def _stopped_at_once() -> Iterator[None]:
    """Within asyncio's loop a first Ctrl-C only asks the loop to end, and that waits for whoever types."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _checked(output: str, *, force: bool) -> Path:
    from clew.hosts.checks import named_path

    path = named_path(output)
    try:
        _check(path, force=force)
    except OSError as error:  # a name that no file can have
        raise UsageError(f"--output cannot be written: {error.strerror}.", hint="Name another.") from error
    return path


def _check(path: Path, *, force: bool) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a directory.", hint="--output wants the name of a file.")
    if path.exists() and not path.is_file():  # a device, a pipe: they are no more once a file takes their place
        raise UsageError(f"{path} is no file.", hint="--output wants the name of a file.")
    if not force and os.path.lexists(path):
        raise Conflict(f"{path} is there already.", hint="--force writes over it.")


def _write(path: Path, content: bytes, *, force: bool) -> None:
    """Whole or not at all, for its owner's eyes alone; nobody's file is written over by accident."""
    _check(path, force=force)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if force:
            draft.replace(path)
        else:
            os.link(draft, path)
    except FileExistsError as error:
        raise Conflict(f"{path} is there already.", hint="--force writes over it.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", hint="Name another --output.") from error
    finally:
        draft.unlink(missing_ok=True)


def _tell(made: Exported, path: Path, size: int, *, encrypted: bool, as_json: bool) -> None:
    if as_json:
        from clew.hosts.outgoing import as_objects

        print_json(
            {
                "file": str(path),
                "size_bytes": size,
                "threads": list(made.threads),
                "turns": made.turns,
                "encrypted": encrypted,
                "redacted": made.redacted,
                "secrets": as_objects(made.secrets),
                "sessions": [
                    {"agent": each.agent, "model": each.model or None, "included": each.taken, "why": each.why or None}
                    for each in made.sessions
                ],
            }
        )
        return
    say(harmless(str(path)))
    note(f"{' and '.join(made.threads)}: {plural(made.turns, 'turn')}, {size:,} bytes{', encrypted' * encrypted}")
    if made.redacted is not None:
        note(f"blanked {plural(made.redacted, 'secret')}; what looks like none is still in it")
    tell_secrets(made.secrets, "blanked" if made.redacted is not None else "it holds")
    for each in made.sessions:
        who = harmless(" ".join(part for part in (each.agent, each.model) if part))
        note(f"the session of {who} goes along" if each.taken else f"not the session of {who}: {each.why}")


def tell_secrets(secrets: Sequence[Secret], what: str) -> None:
    for each in secrets:
        times = f", {each.count} times" if each.count > 1 else ""
        note(f"{what}: {harmless(each.kind)} ({harmless(each.where)}{times})")
