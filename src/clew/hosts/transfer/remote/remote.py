"""A remote: threads in chunks under one address.

    clew-remote.json          its header (header.py)
    manifests/THREAD/NUMBER   one for each push of a thread: which chunks it is made of
    pieces/THREAD/DIGEST      a chunk: some lines of the thread, or a list of chunks
    signatures/THREAD/DIGEST  the signature of a manifest, if the push was signed

Rules
1. Objects are created and read, never changed and never deleted. Chunks come first and the manifest last: a push that
   is interrupted changes no thread, and the next push need not send its chunks again.
2. The manifest of a number can be created once: of two pushes at the same moment, one learns that the other came first.
3. What is signed is the digest of a manifest, which has the digests of all parts, with the remote, the thread and the
   number: so nothing in it can be changed or moved. The signature is created before the manifest.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from clew.core.record import Record
from clew.errors import Conflict, UsageError
from clew.hosts.transfer.export_file import MAX_FILE_BYTES, MAX_MANIFEST_BYTES
from clew.hosts.transfer.remote.chunks import (
    MAX_CHUNK_BYTES,
    MIN_CHUNK_BYTES,
    NUMBER_DIGITS,
    THREAD_KEY,
    Manifest,
    ManifestPart,
    damaged,
    fold,
    pack_manifest,
    read_manifest,
    sha256,
    split,
    unfold,
)
from clew.hosts.transfer.remote.header import RemoteHeader, RemoteKeys, new_header, read_header
from clew.hosts.transfer.remote.object_store import AT_ONCE, ObjectStore
from clew.hosts.transfer.signatures import FOR_A_REMOTE, MAX_SIGNATURE_BYTES, Signer, Signers, sign, unsigned, verify
from clew.store.transfer.codec import as_json

HEADER = "clew-remote.json"
SIGNED = "clew-remote-signature"
MAX_NAMES = MAX_FILE_BYTES // MIN_CHUNK_BYTES + 1000
FETCHED_AT_ONCE = 256  # chunks; a large session has more

_MANIFEST = re.compile(rf"manifests/([^/]+)/([0-9]{{{NUMBER_DIGITS}}})")

Progress = Callable[[int, int], None]  # bytes done, and of how many


class Sent(Record):
    """What a push has sent."""

    objects: int = 0
    size_bytes: int = 0


class RemoteListing(Record):
    """The threads at a remote."""

    manifests: tuple[Manifest, ...]
    problems: tuple[UsageError, ...] = ()  # of threads whose manifest cannot be read


class Remote:
    """A remote that `open_remote` has opened."""

    def __init__(self, objects: ObjectStore, header: RemoteHeader) -> None:
        self.objects = objects
        self.id = header.id
        self.encoding = header.encoding
        self._unwritten = header.unwritten

    @property
    def url(self) -> str:
        return self.objects.url

    @property
    def is_encrypted(self) -> bool:
        return self.encoding.is_encrypted

    async def manifests(self) -> RemoteListing:
        """The newest manifest of every thread, sorted by name. A damaged one does not hide the others."""
        newest = _newest(await self.objects.paths("manifests"))
        reading = (self._manifest(key, number) for key, number in newest.items())
        found = await asyncio.gather(*reading, return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, UsageError):
                raise each
        whole = sorted((each for each in found if isinstance(each, Manifest)), key=lambda each: each.name)
        return RemoteListing(tuple(whole), tuple(each for each in found if isinstance(each, UsageError)))

    async def newest(self, thread_id: str) -> Manifest | None:
        key = self.encoding.thread_key(thread_id)
        last = _newest(await self.objects.paths(f"manifests/{key}")).get(key)
        return None if last is None else await self._manifest(key, last)

    async def manifest(self, thread_id: str, number: int) -> Manifest | None:
        return await self._manifest(self.encoding.thread_key(thread_id), number)

    async def _manifest(self, key: str, number: int) -> Manifest | None:
        raw = await self.objects.get(_manifest_path(key, number))
        if raw is None:
            return None
        found = read_manifest(self.encoding.decoded(raw, MAX_MANIFEST_BYTES, "a manifest"))
        if self.encoding.thread_key(found.thread_id) != key or found.number != number:
            raise damaged("a manifest")
        return found

    async def prepare_upload(self, thread_id: str, parts: Mapping[str, bytes], on_bytes: Progress | None) -> Upload:
        """Splits the parts into chunks, and finds out which ones the remote lacks. Nothing is sent yet."""
        key = self.encoding.thread_key(thread_id)
        there = (
            set()
            if self._unwritten
            else {path.rpartition("/")[2] for path in await self.objects.paths(_chunk_folder(key))}
        )
        upload = Upload(self, key, there, on_bytes)
        await asyncio.to_thread(upload.split, parts)
        return upload

    async def write_header(self) -> None:
        """Writes the header of a new remote, before anything else is sent."""
        if self._unwritten is not None:
            if not await self.objects.create(HEADER, self._unwritten):
                raise Conflict(f"Somebody else has just pushed to {self.url} for the first time.", hint="Push again.")
            self._unwritten = None

    async def commit(self, manifest: Manifest) -> int | None:
        """Creates the manifest. Returns how many bytes were sent. None: somebody else has pushed that number.

        Our own manifest may be there already, when the answer to an earlier request was lost: that is no conflict.
        """
        raw = pack_manifest(manifest)
        content = self.encoding.encoded(raw)
        if not await self.objects.create(
            _manifest_path(self.encoding.thread_key(manifest.thread_id), manifest.number), content
        ):
            there = await self.manifest(manifest.thread_id, manifest.number)
            if there is None or there.digest != sha256(raw):
                return None
        return len(content)

    async def sign(self, manifest: Manifest, by: Signer) -> int:
        """Creates the signature, before the manifest is committed. Returns how many bytes were sent."""
        signature = await asyncio.to_thread(sign, by, FOR_A_REMOTE, self._signed(manifest))
        content = self.encoding.encoded(signature)
        await self.objects.create(self._signature_path(manifest), content)
        return len(content)

    async def is_signed(self, manifest: Manifest) -> bool:
        return await self.objects.get(self._signature_path(manifest)) is not None

    async def signed_by(self, manifest: Manifest, signers: Signers) -> str:
        """Who signed it. Raises UsageError unless it is one of the signers."""
        what = f"{manifest.name} at {self.url}"
        raw = await self.objects.get(self._signature_path(manifest))
        if raw is None:
            raise unsigned(what)
        signature = self.encoding.decoded(raw, MAX_SIGNATURE_BYTES, "a signature")
        return await asyncio.to_thread(verify, signers, FOR_A_REMOTE, self._signed(manifest), signature, what)

    def _signed(self, manifest: Manifest) -> bytes:
        said = {"remote": self.id, "thread": manifest.thread_id, "number": manifest.number, "manifest": manifest.digest}
        return as_json({"format": SIGNED, "version": 1, **said})

    def _signature_path(self, manifest: Manifest) -> str:
        name = self.encoding.name(b"signature\0" + manifest.digest.encode())
        return f"signatures/{self.encoding.thread_key(manifest.thread_id)}/{name}"

    async def fetch(
        self, manifest: Manifest, at_hand: Iterable[bytes] = (), on_bytes: Progress | None = None
    ) -> dict[str, bytes]:
        """The parts of the thread, each chunk verified. Chunks that are in `at_hand` are not fetched."""
        key, known = self.encoding.thread_key(manifest.thread_id), dict[str, bytes]()
        for content in at_hand:
            known.update({self.encoding.name(chunk): chunk for chunk in split(content)})
        total, done, parts = sum(part.size_bytes for part in manifest.parts), 0, {}
        for part in manifest.parts:
            names = await self._unfolded(key, part)
            for start in range(0, len(names), FETCHED_AT_ONCE):
                some = names[start : start + FETCHED_AT_ONCE]
                missing = list(dict.fromkeys(name for name in some if name not in known))
                found = await asyncio.gather(*(self._chunk(key, name) for name in missing))
                known.update(zip(missing, found, strict=True))
                done += sum(len(known[name]) for name in some)
                if done > MAX_FILE_BYTES:
                    raise damaged(part.name)
                if on_bytes is not None:
                    on_bytes(done, total)
            content = b"".join(known[name] for name in names)
            if len(content) != part.size_bytes or sha256(content) != part.sha256:
                raise damaged(part.name)
            parts[part.name] = content
        return parts

    async def _unfolded(self, key: str, part: ManifestPart) -> Sequence[str]:
        names: list[str] = []
        for level in reversed(part.chunks):
            lists = await asyncio.gather(*(self._chunk(key, name) for name in names))
            names = [name for content in lists for name in unfold(content)] + list(level)
            if len(names) > MAX_NAMES:
                raise damaged(part.name)
        return names

    async def _chunk(self, key: str, name: str) -> bytes:
        raw = await self.objects.get(f"{_chunk_folder(key)}/{name}")
        if raw is None:
            raise UsageError("The remote is damaged: a chunk is missing.", hint="Nothing was stored.")
        content = self.encoding.decoded(raw, MAX_CHUNK_BYTES, "a chunk")
        if self.encoding.name(content) != name:
            raise damaged("a chunk")
        return content


class Upload:
    """The chunks of one thread that the remote lacks."""

    def __init__(self, remote: Remote, key: str, there: set[str], on_bytes: Progress | None) -> None:
        self.parts: list[ManifestPart] = []
        self.new_bytes = 0  # not compressed
        self.new_in: dict[str, bytes] = {}  # by part: its content that the remote lacks
        self._remote = remote
        self._key = key
        self._there = there
        self._on_bytes = on_bytes
        self._new: dict[str, bytes] = {}

    def split(self, parts: Mapping[str, bytes]) -> None:
        for name, content in parts.items():
            chunks = [(self._keep(chunk), chunk) for chunk in split(content)]
            self.new_in[name] = b"".join(chunk for named, chunk in chunks if named in self._new)
            levels = fold([named for named, _ in chunks], self._keep)
            self.parts.append(ManifestPart(name, len(content), sha256(content), levels))
        self.new_bytes = sum(map(len, self._new.values()))

    def _keep(self, content: bytes) -> str:
        name = self._remote.encoding.name(content)
        if name not in self._there:
            self._new[name] = content
        return name

    async def send(self) -> Sent:
        """Sends the chunks, and returns when all have arrived. Raises the first failure, and sends no more after it."""
        sizes, done = list[int](), 0
        waiting = iter(self._new.items())

        async def work() -> None:
            nonlocal done
            for name, content in waiting:
                raw = await asyncio.to_thread(self._remote.encoding.encoded, content)
                if await self._remote.objects.create(f"{_chunk_folder(self._key)}/{name}", raw):
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


async def open_remote(objects: ObjectStore, keys: RemoteKeys, *, to_push: bool) -> Remote:
    """Opens a remote. Raises UsageError when these keys do not fit. The first push writes a new remote's header."""
    raw = await objects.get(HEADER)
    if raw is not None:
        return Remote(objects, await read_header(raw, keys, objects.url, to_push=to_push))
    if not to_push:
        raise UsageError(f"There are no threads at {objects.url}.", hint="clew threads push brings some there.")
    return Remote(objects, await new_header(keys, objects.url))


def _newest(paths: Iterable[str]) -> dict[str, int]:
    """The number of the newest manifest, by thread. Names that no push has written are ignored."""
    newest: dict[str, int] = {}
    for path in paths:
        found = _MANIFEST.fullmatch(path)
        if found is not None and THREAD_KEY.match(found[1]):
            newest[found[1]] = max(int(found[2]), newest.get(found[1], 0))
    return newest


def _chunk_folder(key: str) -> str:
    return f"pieces/{key}"


def _manifest_path(key: str, number: int) -> str:
    return f"manifests/{key}/{number:0{NUMBER_DIGITS}d}"
