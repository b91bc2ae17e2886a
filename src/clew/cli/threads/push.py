"""The commands `clew threads push` and `pull`."""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON, complete_thread
from clew.cli.threads.export import PASSPHRASE_FILE, SIGN, read_passphrase
from clew.cli.threads.imports import SIGNERS, accepted, read_identity
from clew.cli.threads.push_display import Progress, print_listing, print_pulled, print_pushed
from clew.errors import ClewError, StoreError, UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.hosts.transfer.remote.header import RemoteKeys
    from clew.hosts.transfer.remote.remote import Remote
    from clew.hosts.transfer.remote.sync import PullResult, PushResult
    from clew.hosts.transfer.signatures import Signer

T = TypeVar("T")

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
    if recipients:
        from clew.hosts.transfer.encryption import check_recipients

        check_recipients(recipients)
    keys = _keys(passphrase_file if encrypt else None, identity, recipients, ask=encrypt)

    async def work(client: Client) -> int:
        from clew.hosts.transfer.remote.sync import groups
        from clew.hosts.transfer.remote.sync import push as push_thread

        done: list[tuple[str, PushResult | ClewError]] = []
        async with Progress() as progress:
            signer = _signer(client, sign)
            remote = await _opened(client, url, keys, progress, to_push=True)
            chosen = await groups(client.engine, names)
            for group in chosen:
                progress.say(f"reading {group.name}")
                each = push_thread(
                    client.engine,
                    remote,
                    group.key,
                    os.environ,
                    signer=signer,
                    with_secrets=with_secrets,
                    dry_run=dry_run,
                    on_bytes=progress.of("sending", group.name),
                )
                done.append((group.name, await _tried(each, alone=len(chosen) == 1)))
        return print_pushed(remote, done, dry_run=dry_run, as_json=as_json)

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
    keys = _keys(passphrase_file, identity, (), ask=True)

    async def work(client: Client) -> int:
        from clew.core.thread import Permissions, Trust
        from clew.hosts.transfer.remote.sync import find_manifest
        from clew.hosts.transfer.remote.sync import pull as pull_thread

        done: list[tuple[str, PullResult | ClewError]] = []
        async with Progress() as progress:
            trusted = accepted(client.settings, signers)
            remote = await _opened(client, url, keys, progress, to_push=False)
            there = await remote.manifests()
            chosen = {each.thread_id: each for each in there.manifests} if everything else {}
            for one in dict.fromkeys(names):
                found = await _tried(find_manifest(client.engine, there, one), alone=len(names) == 1)
                if isinstance(found, ClewError):
                    done.append((one, found))
                else:
                    chosen[found.thread_id] = found
            alone = len(chosen) == 1 and not done and not (everything and there.problems)
            for manifest in chosen.values():
                progress.say(f"looking at {manifest.name}")
                each = pull_thread(
                    client.engine,
                    remote,
                    manifest,
                    client.archives,
                    cwd=cwd or ".",
                    name=name,
                    signers=trusted,
                    permissions=Permissions(client.settings.of("permissions")),
                    trust=Trust(client.settings.of("trust")),
                    dry_run=dry_run,
                    on_bytes=progress.of("fetching", manifest.name),
                )
                done.append((manifest.name, await _tried(each, alone=alone)))
        if not everything and not names:
            print_listing(remote, there, as_json=as_json)
            return 0
        done += [("", problem) for problem in there.problems] if everything else []
        return print_pulled(remote, done, dry_run=dry_run, as_json=as_json)

    return with_client(work)


def _split(args: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """The URL, if the first argument is one, and the names. Raises UsageError for a mistyped URL."""
    from clew.hosts.transfer.remote.object_store import refuse_mistyped

    for place, word in enumerate(args):
        refuse_mistyped(word)
        if place and "://" in word:
            raise UsageError("Only one URL can be given, and it comes first.", hint="The names of threads follow it.")
    return (args[0], args[1:]) if args and "://" in args[0] else (None, args)


def _keys(passphrase_file: str | None, identity: str | None, recipients: tuple[str, ...], *, ask: bool) -> RemoteKeys:
    from clew.hosts.transfer.remote.header import RemoteKeys

    asked = (lambda is_new: read_passphrase(passphrase_file, confirm=is_new)) if ask else None
    is_given = passphrase_file is not None or identity is not None
    return RemoteKeys(
        asked, recipients, read_identity(identity) if identity is not None else None, must_be_needed=is_given
    )


def _signer(client: Client, key: str | None) -> Signer | None:
    """The signer that the option names, or else the setting."""
    from clew.hosts.transfer.signatures import signer

    key = key or client.settings.of("remote.sign")
    if key is None and client.settings.of("remote.signers"):
        raise UsageError(
            "This push would not be signed, and remote.signers accepts only signed ones.",
            hint="Give --sign KEY, or set remote.sign.",
        )
    return signer(key, os.environ) if key is not None else None


async def _opened(client: Client, url: str | None, keys: RemoteKeys, progress: Progress, *, to_push: bool) -> Remote:
    from clew.core.record import replace
    from clew.hosts.transfer.remote.object_store import ObjectStore
    from clew.hosts.transfer.remote.remote import open_remote

    place = url or client.settings.of("remote.url")
    if place is None:
        hint = "Give a URL such as s3://bucket/path, or set remote.url in your clew.toml."
        raise UsageError("No remote was named.", hint=hint)
    objects = ObjectStore(place)
    ask = keys.passphrase
    if ask is not None:
        keys = replace(keys, passphrase=lambda is_new: progress.asking(lambda: ask(is_new)))
    progress.say(f"connecting to {objects.url}")
    return await open_remote(objects, keys, to_push=to_push)


async def _tried(each: Awaitable[T], *, alone: bool) -> T | ClewError:
    """Returns the error of one thread, so that the other threads are still handled.

    Raises the error if the thread is the only one (`alone`), or if the store or the remote failed.
    """
    try:
        return await each
    except StoreError:
        raise
    except ClewError as error:
        if alone:
            raise
        return error
