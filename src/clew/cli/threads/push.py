"""The commands `clew threads push` and `pull`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON, complete_thread
from clew.cli.threads.export import PASSPHRASE_FILE, SIGN, read_passphrase
from clew.cli.threads.imports import SIGNERS, read_identity
from clew.cli.threads.push_display import print_listing, print_pulled, print_pushed
from clew.cli.ui.progress import Progress, followed
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.remotes import Passphrase

IDENTITY = click.option(
    "--identity", metavar="FILE", help="Your age identity, or SSH private key, to decrypt the remote with."
)
ARGS = click.argument("args", metavar="[URL] [NAME]...", nargs=-1, shell_complete=complete_thread)


@click.command()
@ARGS
@click.option("--all", "everything", is_flag=True, help="Every thread.")
@click.option("--encrypt", is_flag=True, help="Encrypt it with a passphrase, from the first push on.")
@PASSPHRASE_FILE
@click.option(
    "--recipient",
    "recipients",
    metavar="KEY",
    multiple=True,
    help="Encrypt it for this key instead, from the first push on: age1…, or an SSH public key. May be repeated.",
)
@IDENTITY
@SIGN
@click.option("--with-secrets", is_flag=True, help="Push it even if it contains secrets, or what looks like one.")
@click.option("--dry-run", is_flag=True, help="Only show what would be sent.")
@AS_JSON
def push(
    args: tuple[str, ...],
    everything: bool,
    encrypt: bool,
    passphrase_file: str | None,
    recipients: tuple[str, ...],
    identity: str | None,
    sign: str | None,
    with_secrets: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Push threads to an object store, or to a shared folder. Only what is new is sent.

    URL is s3://bucket/path, gs://bucket/path, az://container/path or file:///path; without one, the setting remote.url.
    Credentials come from the environment. A thread that has changed on both sides is a conflict: it is reported, and
    nothing is overwritten. Nothing is ever deleted there.

    \b
      clew threads push s3://team/clew fix-login
      clew threads push file:///mnt/share/clew --all --encrypt
    """
    url, names = _split(args)
    encrypt = encrypt or passphrase_file is not None
    if encrypt and (recipients or identity):
        raise UsageError(
            "--encrypt needs a passphrase, --recipient and --identity need keys.", hint="Give one of them."
        )
    if everything and names:
        raise UsageError("Names and --all cannot be given together.", hint="Give one of them.")
    if not everything and not names:
        raise UsageError("No thread was named.", hint="Name threads, or give --all.")
    from clew.api import remotes

    options = remotes.PushOptions(
        url=url,
        passphrase=_passphrase(passphrase_file) if encrypt else None,
        identity=read_identity(identity) if identity is not None else None,
        threads=names,
        everything=everything,
        recipients=recipients,
        sign=sign,
        with_secrets=with_secrets,
        dry_run=dry_run,
    )

    async def work(client: Client) -> int:
        async with Progress() as progress:
            asking = options.replace(passphrase=_shown(options.passphrase, progress))
            pushed = await followed(remotes.push(client, asking), progress.show)
        return print_pushed(pushed, as_json=as_json)

    return with_client(work)


@click.command()
@ARGS
@click.option("--all", "everything", is_flag=True, help="Every thread at the remote.")
@click.option("--cwd", metavar="DIR", help="The work directory of new threads.  [default: the current one]")
@click.option("--name", metavar="NEW", help="Pull it under this name, beside the thread that is here.")
@PASSPHRASE_FILE
@IDENTITY
@SIGNERS
@click.option("--dry-run", is_flag=True, help="Check it, and only show what would be done.")
@AS_JSON
def pull(
    args: tuple[str, ...],
    everything: bool,
    cwd: str | None,
    name: str | None,
    passphrase_file: str | None,
    identity: str | None,
    signers: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Pull threads that `threads push` has pushed. Without names, list them.

    A thread that is not here is imported, as `threads import` does. One that is here and has not changed since it was
    last the same on both sides is updated. One that has changed on both sides is a conflict: nothing is done.

    \b
      clew threads pull s3://team/clew
      clew threads pull s3://team/clew fix-login --cwd ~/shop
    """
    url, names = _split(args)
    if passphrase_file is not None and identity is not None:
        raise UsageError("--passphrase-file and --identity are two ways to decrypt it.", hint="Give one of them.")
    if everything and names:
        raise UsageError("Names and --all cannot be given together.", hint="Give one of them.")
    if name is not None and len(names) != 1:
        raise UsageError("--name needs exactly one thread.", hint="Name that thread.")
    if not everything and not names and (cwd is not None or dry_run):
        what = "--dry-run" if dry_run else "--cwd"
        raise UsageError(f"{what} is only for threads that are pulled.", hint="Name threads, or give --all.")
    from clew.api import remotes
    from clew.api.operations import Report

    remote = remotes.RemoteOptions(
        url=url,
        passphrase=None if identity is not None else _passphrase(passphrase_file),
        identity=read_identity(identity) if identity is not None else None,
    )

    async def work(client: Client) -> int:
        async with Progress() as progress:
            asking = {**remote.as_dict(), "passphrase": _shown(remote.passphrase, progress)}
            if not everything and not names:
                report = Report(lambda _kind, words, *_: progress.say(words))
                there = await remotes.threads(client, remotes.RemoteOptions(**asking), report)
            else:
                options = remotes.PullOptions(
                    **asking,
                    threads=names,
                    everything=everything,
                    cwd=cwd or ".",
                    name=name,
                    signers=None if signers is None else (signers,),
                    dry_run=dry_run,
                )
                pulled = await followed(remotes.pull(client, options), progress.show)
        if not everything and not names:
            print_listing(there, as_json=as_json)
            return 0
        return print_pulled(pulled, as_json=as_json)

    return with_client(work)


def _split(args: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """The URL, if the first argument is one, and the names. Raises UsageError for a mistyped URL."""
    from clew.api.remotes import refuse_mistyped

    for place, word in enumerate(args):
        refuse_mistyped(word)
        if place and "://" in word:
            raise UsageError("Only one URL can be given, and it comes first.", hint="The names of threads follow it.")
    return (args[0], args[1:]) if args and "://" in args[0] else (None, args)


def _passphrase(file: str | None) -> Passphrase:
    """The passphrase in the file; without a file, it is read when it is needed."""
    if file is not None:
        return read_passphrase(file, confirm=False)
    return lambda is_new: read_passphrase(None, confirm=is_new)


def _shown(passphrase: Passphrase | None, progress: Progress) -> Passphrase | None:
    """The same, with the line hidden while the user types."""
    if passphrase is None or isinstance(passphrase, str):
        return passphrase
    return lambda is_new: progress.asking(lambda: passphrase(is_new))
