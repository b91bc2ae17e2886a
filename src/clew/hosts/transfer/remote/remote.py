"""A remote: threads in pieces under one address.

    clew-remote.json          what it is: see portable_head
    manifests/THREAD/NUMBER   one for each push of a thread: which pieces it is made of
    pieces/THREAD/DIGEST      some lines of it
    signatures/THREAD/DIGEST  of a manifest: who pushed it, if they signed

Rules
1. Objects are created and read, never changed and never deleted. Pieces come first and the manifest last: a push that
   was cut off has left nothing but pieces that the next one need not send.
2. The next number can be created once: of two who push at the same moment, one is told that the other was faster.
3. What is signed is the digest of a manifest, which has the digests of all parts, with the remote, the thread and the
   number: so nothing of it can be changed, nor put in another place. The signature comes before the manifest.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from clew.core.record import Record
from clew.engine.object_store import AT_ONCE, ObjectStore
from clew.errors import Conflict, UsageError
from clew.hosts.portable_file import FILE_MOST, as_json
from clew.hosts.portable_head import Head, Lock, new_head, read_head
from clew.hosts.portable_pieces import (
    DIGITS,
    KEY,
    MANIFEST_MOST,
    PIECE_LEAST,
    PIECE_MOST,
    Manifest,
    Part,
    cut,
    damaged,
    fold,
    listed,
    pack_manifest,
    read_manifest,
    sha256,
)
from clew.hosts.signing import OF_A_REMOTE, SIGNATURE_MOST, Signer, Signers, sign, unsigned, verify

HEAD = "clew-remote.json"
SIGNED = "clew-remote-signature"
NAMES_MOST = FILE_MOST // PIECE_LEAST + 1000

_MANIFEST = re.compile(rf"manifests/([^/]+)/([0-9]{{{DIGITS}}})")

Progress = Callable[[int, int], None]  # bytes of how many


class Sent(Record):
    """What went over."""

    objects: int = 0
    size_bytes: int = 0


class Listing(Record):
    """What is at a remote."""

    manifests: tuple[Manifest, ...]
    problems: tuple[UsageError, ...] = ()  # of threads whose manifest cannot be read


class Remote:
    """Opened by `open_remote`."""

    def __init__(self, objects: ObjectStore, head: Head) -> None:
        self.objects = objects
        self.id = head.id
        self.codec = head.codec
        self._unwritten = head.unwritten

    @property
    def url(self) -> str:
        return self.objects.url

    @property
    def is_encrypted(self) -> bool:
        return self.codec.is_closed

    async def manifests(self) -> Listing:
        """The newest of every thread, by name. One that is damaged is no reason to keep the others."""
        newest = _newest(await self.objects.paths("manifests"))
        reading = (self._manifest(key, number) for key, number in newest.items())
        found = await asyncio.gather(*reading, return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, UsageError):
                raise each
        whole = sorted((each for each in found if isinstance(each, Manifest)), key=lambda each: each.name)
        return Listing(tuple(whole), tuple(each for each in found if isinstance(each, UsageError)))

    async def newest(self, thread_id: str) -> Manifest | None:
        key = self.codec.thread_key(thread_id)
        last = _newest(await self.objects.paths(f"manifests/{key}")).get(key)
        return None if last is None else await self._manifest(key, last)

    async def manifest(self, thread_id: str, number: int) -> Manifest | None:
        return await self._manifest(self.codec.thread_key(thread_id), number)

    async def _manifest(self, key: str, number: int) -> Manifest | None:
        raw = await self.objects.get(_manifest_path(key, number))
        if raw is None:
            return None
        found = read_manifest(self.codec.decoded(raw, MANIFEST_MOST, "a manifest"))
        if self.codec.thread_key(found.thread_id) != key or found.number != number:
            raise damaged("a manifest")
        return found

    async def send(self, thread_id: str, parts: Mapping[str, bytes], on_bytes: Progress | None) -> _Sending:
        """Splits it, and finds out what is not there yet. Nothing is sent before `pieces_sent`."""
        key = self.codec.thread_key(thread_id)
        there = (
            set() if self._unwritten else {path.rpartition("/")[2] for path in await self.objects.paths(_pieces(key))}
        )
        sending = _Sending(self, key, there, on_bytes)
        await asyncio.to_thread(sending.split, parts)
        return sending

    async def settle(self) -> None:
        """A new remote gets its head, before anything else."""
        if self._unwritten is not None:
            if not await self.objects.create(HEAD, self._unwritten):
                raise Conflict(f"Somebody else has just begun with {self.url}.", hint="Push again.")
            self._unwritten = None

    async def commit(self, manifest: Manifest) -> int | None:
        """How many bytes it took; None: somebody else has pushed that number. Our own, after a lost answer, is ours."""
        raw = pack_manifest(manifest)
        content = self.codec.encoded(raw)
        if not await self.objects.create(
            _manifest_path(self.codec.thread_key(manifest.thread_id), manifest.number), content
        ):
            there = await self.manifest(manifest.thread_id, manifest.number)
            if there is None or there.digest != sha256(raw):
                return None
        return len(content)

    async def sign(self, manifest: Manifest, by: Signer) -> int:
        """Before it is committed. How many bytes it took."""
        signature = await asyncio.to_thread(sign, by, OF_A_REMOTE, self._signed(manifest))
        content = self.codec.encoded(signature)
        await self.objects.create(self._signature_path(manifest), content)
        return len(content)

    async def is_signed(self, manifest: Manifest) -> bool:
        return await self.objects.get(self._signature_path(manifest)) is not None

    async def signed_by(self, manifest: Manifest, signers: Signers) -> str:
        """Who signed it. Raises UsageError unless somebody did who may."""
        what = f"{manifest.name} at {self.url}"
        raw = await self.objects.get(self._signature_path(manifest))
        if raw is None:
            raise unsigned(what)
        signature = self.codec.decoded(raw, SIGNATURE_MOST, "a signature")
        return await asyncio.to_thread(verify, signers, OF_A_REMOTE, self._signed(manifest), signature, what)

    def _signed(self, manifest: Manifest) -> bytes:
        said = {"remote": self.id, "thread": manifest.thread_id, "number": manifest.number, "manifest": manifest.digest}
        return as_json({"format": SIGNED, "version": 1, **said})

    def _signature_path(self, manifest: Manifest) -> str:
        name = self.codec.name(b"signature\0" + manifest.digest.encode())
        return f"signatures/{self.codec.thread_key(manifest.thread_id)}/{name}"

    async def fetch(
        self, manifest: Manifest, at_hand: Iterable[bytes] = (), on_bytes: Progress | None = None
    ) -> dict[str, bytes]:
        """Its parts, each piece verified. What is at hand already is not fetched again."""
        key, known = self.codec.thread_key(manifest.thread_id), dict[str, bytes]()
        for content in at_hand:
            known.update({self.codec.name(piece): piece for piece in cut(content)})
        total, done, parts = sum(part.size_bytes for part in manifest.parts), 0, {}
        for part in manifest.parts:
            names = await self._unfolded(key, part)
            for start in range(0, len(names), 256):  # not all of a large session at once
                batch = list(dict.fromkeys(name for name in names[start : start + 256] if name not in known))
                found = await asyncio.gather(*(self._piece(key, name) for name in batch))
                known.update(zip(batch, found, strict=True))
                done += sum(len(known[name]) for name in names[start : start + 256])
                if done > FILE_MOST:
                    raise damaged(part.name)
                if on_bytes is not None:
                    on_bytes(done, total)
            content = b"".join(known[name] for name in names)
            if len(content) != part.size_bytes or sha256(content) != part.sha256:
                raise damaged(part.name)
            parts[part.name] = content
        return parts

    async def _unfolded(self, key: str, part: Part) -> Sequence[str]:
        names: list[str] = []
        for level in reversed(part.pieces):
            lists = await asyncio.gather(*(self._piece(key, name) for name in names))
            names = [name for content in lists for name in listed(content)] + list(level)
            if len(names) > NAMES_MOST:
                raise damaged(part.name)
        return names

    async def _piece(self, key: str, name: str) -> bytes:
        raw = await self.objects.get(f"{_pieces(key)}/{name}")
        if raw is None:
            raise UsageError("The remote is damaged: a piece is missing.", hint="Nothing was stored.")
        content = self.codec.decoded(raw, PIECE_MOST, "a piece")
        if self.codec.name(content) != name:
            raise damaged("a piece")
        return content


class _Sending:
    """The pieces of one thread on their way."""

    def __init__(self, remote: Remote, key: str, there: set[str], on_bytes: Progress | None) -> None:
        self.parts: list[Part] = []
        self.new_bytes = 0  # not compressed
        self.new_of: dict[str, bytes] = {}  # by part: what of it is not there yet
        self._remote = remote
        self._key = key
        self._there = there
        self._on_bytes = on_bytes
        self._new: dict[str, bytes] = {}

    def split(self, parts: Mapping[str, bytes]) -> None:
        for name, content in parts.items():
            pieces = [(self._keep(piece), piece) for piece in cut(content)]
            self.new_of[name] = b"".join(piece for named, piece in pieces if named in self._new)
            levels = fold([named for named, _ in pieces], self._keep)
            self.parts.append(Part(name, len(content), sha256(content), levels))
        self.new_bytes = sum(map(len, self._new.values()))

    def _keep(self, content: bytes) -> str:
        name = self._remote.codec.name(content)
        if name not in self._there:
            self._new[name] = content
        return name

    async def pieces_sent(self) -> Sent:
        """The last of them is there when this returns. Raises what the first failure was, and sends no more then."""
        sizes, done = list[int](), 0
        waiting = iter(self._new.items())

        async def work() -> None:
            nonlocal done
            for name, content in waiting:
                raw = await asyncio.to_thread(self._remote.codec.encoded, content)
                if await self._remote.objects.create(f"{_pieces(self._key)}/{name}", raw):
                    sizes.append(len(raw))
                done += len(content)
                if self._on_bytes is not None:
                    self._on_bytes(done, self.new_bytes)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(work())
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return Sent(len(sizes), sum(sizes))


async def open_remote(objects: ObjectStore, lock: Lock, *, to_push: bool) -> Remote:
    """Raises UsageError when it cannot be opened so. One that is new is written by its first push."""
    raw = await objects.get(HEAD)
    if raw is not None:
        return Remote(objects, read_head(raw, lock, objects.url, to_push=to_push))
    if not to_push:
        raise UsageError(f"There are no threads at {objects.url}.", hint="clew threads push brings some there.")
    return Remote(objects, new_head(lock, objects.url))


def _newest(paths: Iterable[str]) -> dict[str, int]:
    """By thread. A name that no push has written is none of a manifest."""
    newest: dict[str, int] = {}
    for path in paths:
        found = _MANIFEST.fullmatch(path)
        if found is not None and KEY.match(found[1]):
            newest[found[1]] = max(int(found[2]), newest.get(found[1], 0))
    return newest


def _pieces(key: str) -> str:
    return f"pieces/{key}"


def _manifest_path(key: str, number: int) -> str:
    return f"manifests/{key}/{number:0{DIGITS}d}"
