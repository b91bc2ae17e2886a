"""The command `clew threads export`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON, complete_thread
from clew.cli.ui.files import check_output, output_path, write_output
from clew.cli.ui.formatting import agent_words, harmless, plural
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.progress import with_progress
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.exports import ExportedFile, LocatedSecret

KEY_FILE_MAX_CHARS = 100_000
VARIABLE = "CLEW_PASSPHRASE"
PASSPHRASE_FILE = click.option(
    "--passphrase-file",
    metavar="FILE",
    help=f"A file whose first line is the passphrase.  [default: {VARIABLE}, else you are asked]",
)
SIGN = click.option(
    "--sign",
    metavar="KEY",
    help="Sign it with this SSH key. Give the public key if an SSH agent holds the private one.",
)


@click.command()
@click.argument("name", shell_complete=complete_thread)
@click.option(
    "--output",
    metavar="FILE",
    help="Write to this file.  [default: NAME.clew, or NAME.clew.age, in the current directory]",
)
@click.option("--force", is_flag=True, help="Replace a FILE that exists.")
@click.option("--encrypt", is_flag=True, help="Encrypt it with a passphrase. Implied by --passphrase-file.")
@PASSPHRASE_FILE
@click.option(
    "--recipient",
    "recipients",
    metavar="KEY",
    multiple=True,
    help="Encrypt it for this key instead: age1…, or an SSH public key. May be repeated.",
)
@click.option(
    "--redact", is_flag=True, help="Export the history only, with everything blanked that looks like a secret."
)
@click.option("--with-secrets", is_flag=True, help="Export it even if it contains secrets, or what looks like one.")
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
    """Write a thread to a file, to continue it elsewhere: its history, its state, and its agents' sessions.

    The two threads of a pair are one file; the pair's name works, too. `clew threads import` reads the file, and so
    does any unzip; an encrypted file can be decrypted with age. With --sign, FILE.sig is its signature.

    \b
      clew threads export fix-login --encrypt
      clew threads export fix-login --redact --output for-the-issue.clew
    """
    encrypt = encrypt or passphrase_file is not None
    if encrypt and recipients:
        raise UsageError("--encrypt and --recipient are two ways to encrypt.", hint="Give one of them.")
    if redact and with_secrets:
        raise UsageError("--redact blanks secrets, --with-secrets keeps them.", hint="Give one of them.")
    from clew.api import exports

    options = exports.ExportOptions(redact=redact, with_secrets=with_secrets, recipients=recipients, sign=sign)
    exports.check_options(options)
    path = output_path(output, force=force) if output is not None else None
    if encrypt:
        options = options.replace(passphrase=read_passphrase(passphrase_file, confirm=True))

    made = with_client(lambda client: with_progress(exports.export(client, name, options)), reads=True)
    place = path or Path(made.name)
    if made.signature is not None:
        check_output(place, force=force)
        write_output(signature_file(place), made.signature, force=force)
    write_output(place, made.content, force=force)
    if made.signature is None and force:
        _remove_signature(signature_file(place))
    _print(made, place, as_json=as_json)


def signature_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sig")


def _remove_signature(path: Path) -> None:
    """Removes the signature of the file that was replaced: it does not match the new file."""
    if not path.is_file():
        return
    try:
        path.unlink()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be removed: {error.strerror}.", hint="It is the signature of the replaced file."
        ) from error
    note(f"removed {harmless(str(path))}: it was the signature of the replaced file")


def read_passphrase(file: str | None, *, confirm: bool) -> str:
    """Reads the passphrase from the file, or else from the environment, or else asks the user."""
    if file is not None:
        found = next(iter(read_key_file(file, "passphrase", hint="Its first line is the passphrase.").splitlines()), "")
    else:
        found = os.environ.get(VARIABLE, "") or _asked(confirm=confirm)
    if not found:
        raise UsageError("The passphrase is empty.", hint="It is the first line of the file, or what you type.")
    return found


def read_key_file(file: str, kind: str, *, hint: str) -> str:
    from clew.api.files import named_path

    try:
        with named_path(file).open(encoding="utf-8") as opened:
            return opened.read(KEY_FILE_MAX_CHARS)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"The {kind} file {file} cannot be read: {why}.", hint=hint) from error


def _asked(*, confirm: bool) -> str:
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("There is no passphrase.", hint=f"Give --passphrase-file, or set {VARIABLE}.")
    with _stopped_at_once():
        return str(click.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm, err=True))


@contextlib.contextmanager
def _stopped_at_once() -> Iterator[None]:
    """Lets Ctrl-C end a prompt at once. Under asyncio, a first Ctrl-C would take effect only after the prompt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _print(made: ExportedFile, path: Path, *, as_json: bool) -> None:
    shape, thread = made.to_shape(), made.thread
    if as_json:
        print_json(shape.replace(file=str(path)).to_json())
        return
    say(harmless(str(path)))
    size = f"{shape.size_bytes:,} bytes{', encrypted' * shape.encrypted}"
    note(f"{' and '.join(thread.threads)}: {plural(thread.turns, 'turn')}, {size}")
    if thread.redacted is not None:
        note(f"blanked {plural(thread.redacted, 'secret')}; a secret that does not look like one is still in it")
    note_secrets(thread.secrets, "blanked" if thread.redacted is not None else "it holds")
    for each in thread.sessions:
        who = agent_words(each.agent, each.model)
        note(f"with the session of {who}" if each.included else f"without the session of {who}: {each.why}")


def note_secrets(secrets: Sequence[LocatedSecret], what: str) -> None:
    for each in secrets:
        times = f", {each.count} times" if each.count > 1 else ""
        note(f"{what}: {harmless(each.kind)} ({harmless(each.where)}{times})")
