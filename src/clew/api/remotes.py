"""Remotes: push threads to an object store or a shared folder, pull them from there, and list what is there.

    pushed = await remotes.push(client, PushOptions(url="s3://team/clew", threads=("fix-login",)))
    pulled = await remotes.pull(client, PullOptions(url="s3://team/clew", threads=("fix-login",), cwd="~/shop"))

Both are operations. Threads are handled one after the other, and each is pushed or pulled as a whole. A cancel stops
before the next step that can be seen: threads that were handled before it stay pushed or pulled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from clew.api.client import Client
from clew.api.operations import NO_REPORT, Operation, Report, without_frames
from clew.api.wire import transfer as wire
from clew.api.wire.operations import Failure, OperationFailure
from clew.core.record import Record
from clew.core.thread import Permissions, Thread, Trust
from clew.errors import ClewError, NotFound, SecretFound, StoreError, UsageError
from clew.hosts.transfer import signatures
from clew.hosts.transfer.encryption import check_recipients
from clew.hosts.transfer.remote.chunks import Manifest
from clew.hosts.transfer.remote.header import RemoteKeys
from clew.hosts.transfer.remote.object_store import ObjectStore, checked_url
from clew.hosts.transfer.remote.object_store import refuse_mistyped as refuse_mistyped
from clew.hosts.transfer.remote.remote import Remote, open_remote
from clew.hosts.transfer.remote.sync import PullResult as PullResult
from clew.hosts.transfer.remote.sync import PushResult as PushResult
from clew.hosts.transfer.remote.sync import find_manifest, groups
from clew.hosts.transfer.remote.sync import pull as pull_thread
from clew.hosts.transfer.remote.sync import push as push_thread
from clew.system.cancellation import is_cancelled

T = TypeVar("T")

# The passphrase, or a function that asks for it when it is needed; its argument is True for the first push.
Passphrase = str | Callable[[bool], str]


class RemoteOptions(Record):
    """Which remote, and how it is decrypted. A remote is encrypted from its first push on, or never."""

    url: str | None = None  # s3://, gs://, az:// or file:///; None: the setting remote.url
    passphrase: Passphrase | None = None
    identity: str | None = None  # the text of an age identity, or of an SSH private key


class PushOptions(RemoteOptions):
    threads: tuple[str, ...] = ()  # names or ids
    everything: bool = False  # every thread
    recipients: tuple[str, ...] = ()  # of a first push: for whom it is encrypted
    sign: str | None = None  # the path of an SSH key; None: the setting remote.sign
    with_secrets: bool = False  # also if a thread contains secrets
    dry_run: bool = False
    may_use: Callable[[Thread], bool] | None = None  # a thread for which this is False is not pushed


class PullOptions(RemoteOptions):
    threads: tuple[str, ...] = ()  # names or ids, here or at the remote
    everything: bool = False  # every thread at the remote
    cwd: str = "."  # the work directory of threads that are not here yet
    name: str | None = None  # pulls one thread under this name, beside the one that is here
    signers: tuple[str, ...] | None = None  # public keys, or files of them; None: the setting remote.signers
    dry_run: bool = False
    may_use: Callable[[Thread], bool] | None = None  # a thread here for which this is False is not replaced


class RemoteContent(Record):
    """The threads at a remote, and what is wrong with those that cannot be read."""

    url: str
    is_encrypted: bool
    threads: tuple[Manifest, ...]
    problems: tuple[UsageError, ...]

    def to_shape(self) -> wire.RemoteThreads:
        return wire.RemoteThreads.of(
            self,
            encrypted=self.is_encrypted,
            dry_run=False,
            threads=[
                wire.RemoteThread.of(each, id=each.thread_id, size_bytes=sum(part.size_bytes for part in each.parts))
                for each in self.threads
            ],
            problems=[problem.message for problem in self.problems],
        )


class Pushed(Record):
    url: str
    is_encrypted: bool
    dry_run: bool
    threads: tuple[tuple[str, PushResult | ClewError], ...]  # the name, and the result or why there is none

    def to_shape(self) -> wire.Push:
        return wire.Push.of(
            self,
            encrypted=self.is_encrypted,
            threads=[_failed(name, it) if isinstance(it, ClewError) else _pushed(it) for name, it in self.threads],
        )


class Pulled(Record):
    url: str
    is_encrypted: bool
    dry_run: bool
    threads: tuple[tuple[str, PullResult | ClewError], ...]  # the name, and the result or why there is none

    def to_shape(self) -> wire.Pull:
        return wire.Pull.of(
            self,
            encrypted=self.is_encrypted,
            threads=[_failed(name, it) if isinstance(it, ClewError) else _pulled(it) for name, it in self.threads],
        )


def _pushed(each: PushResult) -> wire.PushedThread:
    return wire.PushedThread.of(
        each,
        sent_bytes=each.sent.size_bytes,
        sent_objects=each.sent.objects,
        secrets=[wire.FoundSecret.of(secret, turn=secret.turn_id) for secret in each.secrets],
        error=None,
    )


def _pulled(each: PullResult) -> wire.PulledThread:
    made = each.imported
    sessions = made.sessions if made is not None else ()
    return wire.PulledThread.of(
        each,
        new_ids=made is not None and made.renewed,
        sessions=[wire.ArrivedSession.of(it, model=it.model or None, why=it.why or None) for it in sessions],
        notes=list(made.notes) if made is not None else [],
        error=None,
    )


def _failed(name: str, error: ClewError) -> wire.FailedThread:
    state = "conflict" if error.code == "conflict" else "failed"
    shape: Failure = Failure.of(error)
    if isinstance(error, SecretFound):
        shape = OperationFailure.of(error, secrets=[wire.FoundSecret.of(**each) for each in error.secrets])
    return wire.FailedThread.of(name=name or "?", state=state, error=shape)


def address(client: Client, options: RemoteOptions) -> str:
    """The address of the remote. Raises UsageError for an invalid one, and if there is none."""
    url = options.url or client.settings.of("remote.url")
    if url is None:
        hint = "Give a URL such as s3://bucket/path, or set remote.url in your clew.toml."
        raise UsageError("No remote was named.", hint=hint)
    return checked_url(url)


def local_folder(url: str) -> str | None:
    """The folder of this machine that an address names; None: the remote is elsewhere."""
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else None


async def threads(client: Client, options: RemoteOptions, report: Report = NO_REPORT) -> RemoteContent:
    """What is at the remote. Raises UsageError, and StoreError while it cannot be reached."""
    remote = await _opened(address(client, options), _keys(options), report, to_push=False)
    there = await remote.manifests()
    return RemoteContent(remote.url, remote.is_encrypted, there.manifests, there.problems)


def push(client: Client, options: PushOptions, *, new_id: str | None = None) -> Operation[Pushed]:
    """Pushes threads. A thread that has changed on both sides is a conflict, and nothing is overwritten.

    Raises UsageError. The operation raises the error of its only thread; of several threads, the result has the error
    of each. It also raises StoreError when the remote or the store fails.
    """
    _check_names(options)
    if options.passphrase is not None and (options.recipients or options.identity is not None):
        raise UsageError("A passphrase, or keys, decrypt a remote.", hint="Give one of them.")
    check_recipients(options.recipients)
    url, signer = address(client, options), _signer(client, options.sign)

    async def work(operation: Operation[Pushed], report: Report) -> Pushed:
        remote = await _opened(url, _keys(options, options.recipients), report, to_push=True)
        chosen = await groups(client.engine, options.threads)
        done: list[tuple[str, PushResult | ClewError]] = []

        async def push_one(key: str, step: _Step) -> PushResult:
            await _check_use(client, key, options.may_use)
            return await push_thread(
                client.engine,
                remote,
                key,
                client._environ,
                signer=signer,
                with_secrets=options.with_secrets,
                dry_run=options.dry_run,
                on_bytes=step.counting("sending"),
            )

        for number, group in enumerate(chosen, 1):
            _stop_if_cancelled()
            step = _Step(report, group.name, number, len(chosen))
            step.say("reading")
            done.append((group.name, await _tried(push_one(group.key, step), alone=len(chosen) == 1)))
        return Pushed(remote.url, remote.is_encrypted, options.dry_run, tuple(done))

    return client.operations.start("push", work, Pushed.to_shape, subjects=options.threads, new_id=new_id)


def pull(client: Client, options: PullOptions, *, new_id: str | None = None) -> Operation[Pulled]:
    """Pulls threads. One that is not here is imported; one that has changed there only replaces what is here.

    Raises as `push` does.
    """
    _check_names(options)
    if options.passphrase is not None and options.identity is not None:
        raise UsageError("A passphrase and an identity are two ways to decrypt it.", hint="Give one of them.")
    if options.name is not None and len(options.threads) != 1:
        raise UsageError("A new name needs exactly one thread.", hint="Name that thread.")
    url = address(client, options)
    entries = client.settings.of("remote.signers") if options.signers is None else options.signers
    accepted = signatures.signers(entries, client._environ) if entries else None

    async def work(operation: Operation[Pulled], report: Report) -> Pulled:
        done: list[tuple[str, PullResult | ClewError]] = []
        remote = await _opened(url, _keys(options), report, to_push=False)
        there = await remote.manifests()
        chosen = {each.thread_id: each for each in there.manifests} if options.everything else {}
        for name in dict.fromkeys(options.threads):
            found = await _tried(find_manifest(client.engine, there, name), alone=len(options.threads) == 1)
            if isinstance(found, ClewError):
                done.append((name, found))
            else:
                chosen[found.thread_id] = found
        alone = len(chosen) == 1 and not done and not (options.everything and there.problems)

        async def pull_one(theirs: Manifest, step: _Step) -> PullResult:
            if options.name is None:
                await _check_use(client, theirs.thread_id, options.may_use)
            return await pull_thread(
                client.engine,
                remote,
                theirs,
                client.archives,
                cwd=options.cwd,
                name=options.name,
                signers=accepted,
                permissions=Permissions(client.settings.of("permissions")),
                trust=Trust(client.settings.of("trust")),
                dry_run=options.dry_run,
                on_bytes=step.counting("fetching"),
            )

        for number, manifest in enumerate(chosen.values(), 1):
            _stop_if_cancelled()
            step = _Step(report, manifest.name, number, len(chosen))
            step.say("looking at")
            done.append((manifest.name, await _tried(pull_one(manifest, step), alone=alone)))
        done += [("", problem) for problem in there.problems] if options.everything else []
        return Pulled(remote.url, remote.is_encrypted, options.dry_run, tuple(done))

    return client.operations.start("pull", work, Pulled.to_shape, subjects=options.threads, new_id=new_id)


def _check_names(options: PushOptions | PullOptions) -> None:
    if options.everything and options.threads:
        raise UsageError("Names and everything cannot be given together.", hint="Give one of them.")
    if not options.everything and not options.threads:
        raise UsageError("No thread was named.", hint="Name threads, or ask for every thread.")


def _keys(options: RemoteOptions, recipients: tuple[str, ...] = ()) -> RemoteKeys:
    """A passphrase that is asked for when it is needed fits a remote that is not encrypted, too."""
    given = options.passphrase
    ask = (lambda _is_new: given) if isinstance(given, str) else given
    is_given = isinstance(given, str) or options.identity is not None
    return RemoteKeys(ask, recipients, options.identity, must_be_needed=is_given)


def _signer(client: Client, key: str | None) -> signatures.Signer | None:
    key = key or client.settings.of("remote.sign")
    if key is None and client.settings.of("remote.signers"):
        raise UsageError(
            "This push would not be signed, and remote.signers accepts only signed ones.",
            hint="Give --sign KEY, or set remote.sign.",
        )
    return signatures.signer(key, client._environ) if key is not None else None


async def _opened(url: str, keys: RemoteKeys, report: Report, *, to_push: bool) -> Remote:
    report.progress(f"connecting to {url}")
    return await open_remote(ObjectStore(url), keys, to_push=to_push)


def _stop_if_cancelled() -> None:
    """A cancel during the last step of a thread takes effect before the next thread."""
    if is_cancelled():
        raise asyncio.CancelledError


async def _check_use(client: Client, key: str, may_use: Callable[[Thread], bool] | None) -> None:
    """Raises UsageError for a thread of this store that may not be used."""
    if may_use is None:
        return
    try:
        found: Iterable[Thread] = [thread.record for thread in await client.together(key)]
    except NotFound:
        return  # it is not here, or the push says so
    if not all(may_use(thread) for thread in found):
        raise UsageError("Its directory is outside the roots that this daemon may work in.")


class _Step:
    """Reports what is done with one thread: which of how many, and bytes at most a hundred times."""

    def __init__(self, report: Report, name: str, number: int, of: int) -> None:
        self._report = report
        self._whose = name if of == 1 else f"{name} ({number} of {of})"
        self._data: dict[str, Any] = {"thread": name, "number": number, "of": of}

    def say(self, doing: str) -> None:
        self._report.progress(f"{doing} {self._whose}", **self._data)

    def counting(self, doing: str) -> Callable[[int, int], None]:
        said = 0

        def count(done: int, total: int) -> None:
            nonlocal said
            if done < total and done - said < total / 100:
                return
            said = done
            words = f"{doing} {self._whose}: {done / 1e6:,.1f} of {total / 1e6:,.1f} MB"
            self._report.progress(words, done, total, **self._data)

        return count


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
        return without_frames(error)
