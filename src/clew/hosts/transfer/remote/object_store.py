"""Object stores: s3://, gs://, az:// and file://, through obstore.

Rules
1. An object is created or read, never changed and never deleted. Creating an object that exists fails: no other
   compare-and-swap is needed, and every kind of store supports it.
2. Credentials come from the environment, where obstore finds them. An address that holds a password is refused, and the
   error texts of the other side are never repeated: they may contain a signed address.
3. Objects in a folder of this machine are readable by their owner only. Others may be able to write there: so only
   plain files are read, and no link in the folder is followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from clew.errors import ClewError, StoreError, UsageError
from clew.system.folders import make_private

SCHEMES = ("s3", "gs", "az", "file")
CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION; AWS_SESSION_TOKEN and AWS_ENDPOINT where needed",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or what gcloud auth application-default login left",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY",
}
AT_ONCE = 16  # requests at the same time
MAX_OBJECT_BYTES = 8 * 1024**2
SHOWN_CHARS = 200  # how much of an invalid address an error shows
RETRIES, RETRY = 3, timedelta(seconds=20)

_MAY_HOLD_SECRETS = re.compile(r"[@?#]|:.*:")  # an invalid address with these may hold a password or a signature
_STATUS = re.compile(r"status code: (\d{3})")
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist|NoSuchContainer")
_NO_SPACE = re.compile(r"os error (?:28|122)\b")  # the disk is full, or the user's quota is used up
_NOT_OURS = re.compile(r"os error (?:1|13|30)\b")
_NO_ACCOUNT = re.compile(r"must be specified|MissingAccount|Missing\w+")


class ObjectStore:
    """The objects under one address. Raises UsageError for what the user can fix, StoreError for temporary faults."""

    def __init__(self, url: str) -> None:
        self.url = checked_url(url)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._folder: Path | None = None
        self._store: Any = None

    async def get(self, path: str, most: int = MAX_OBJECT_BYTES) -> bytes | None:
        """The content of an object. None: it does not exist."""
        import obstore

        async with self._request():
            try:
                store = self._opened()
                if self._folder is not None:
                    return await asyncio.to_thread(self._read, path, most)
                found = await obstore.get_async(store, path)
                if int(found.meta["size"]) > most:
                    raise self._too_large(path)
                return bytes(await found.bytes_async())
            except FileNotFoundError as error:
                if _NO_BUCKET.search(str(error)):
                    raise self._no_bucket() from None
                return None

    async def create(self, path: str, content: bytes) -> bool:
        """Creates an object, atomically. False: it exists already, and was not changed."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        async with self._request():
            try:
                store = self._opened(for_writing=True)
                if self._folder is not None:
                    make_private(self._place(path).parent)
                await obstore.put_async(store, path, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            except FileNotFoundError as error:
                if self.url.startswith("file:"):
                    raise
                raise self._no_bucket() from error
            if self._folder is not None:
                (self._folder / path).chmod(0o600)
            return True

    async def paths(self, prefix: str) -> list[str]:
        """The paths of all objects below the prefix, sorted."""
        import obstore

        async with self._request():
            try:
                store = self._opened()
                if self._folder is not None:
                    self._place(prefix)
                found = await obstore.list(store, prefix).collect_async()
            except FileNotFoundError:
                return []
            return sorted(str(each["path"]) for each in found)

    def _place(self, path: str) -> Path:
        """The object's file in our folder. Raises UsageError for a link on the way."""
        assert self._folder is not None
        place = self._folder
        for name in path.split("/"):
            place /= name
            if place.is_symlink():
                raise UsageError(f"{place} is a link, and a remote must not have links.", hint="Find out who made it.")
        return place

    def _read(self, path: str, most: int) -> bytes:
        """Does not block, even if the file is a pipe."""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(self._place(path), flags)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{path} at {self.url} is not a plain file.", hint="Find out who made it.")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(most + 1)
        finally:
            os.close(descriptor)
        if len(content) > most:
            raise self._too_large(path)
        return content

    def _too_large(self, path: str) -> UsageError:
        return UsageError(f"{path} at {self.url} is larger than any object that Clew writes.")

    def _opened(self, *, for_writing: bool = False) -> Any:
        """Opens the store. A local folder is created by the first write."""
        if self._store is not None:
            return self._store
        from obstore.store import LocalStore, from_url

        parts = urlsplit(self.url)
        if parts.scheme == "file":
            folder = Path(unquote(parts.path))
            if for_writing:
                make_private(folder)
            elif not folder.is_dir():
                raise FileNotFoundError
            self._folder, self._store = folder, LocalStore(folder)
        else:
            # We set no client options: they would replace those of the environment (AWS_ALLOW_HTTP). The defaults are
            # time-outs of 5 s to connect and 30 s for a request.
            self._store = from_url(self.url, retry_config={"max_retries": RETRIES, "retry_timeout": RETRY})
        return self._store

    @contextlib.asynccontextmanager
    async def _request(self) -> AsyncIterator[None]:
        """Limits the number of concurrent requests, and converts errors to Clew's."""
        from obstore.exceptions import BaseError

        try:
            async with self._slots:
                yield
        except ClewError:
            raise
        except (BaseError, OSError, ValueError) as error:
            raise self._explain(error) from None

    def _explain(self, error: Exception) -> ClewError:
        words = str(error) or repr(error)
        status = _STATUS.search(words)
        code = int(status[1]) if status else None
        if _NO_BUCKET.search(words):
            return self._no_bucket()
        if type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError") or code in (401, 403):
            return UsageError(
                f"{self.url} denies access.",
                hint=f"Credentials come from the environment: {self._credentials()}.",
            )
        if _is_local(error) or self.url.startswith("file:"):
            return self._explain_local(error, words)
        if _NO_ACCOUNT.search(words) and code is None:
            return UsageError(
                f"The environment lacks settings for {self.url}.",
                hint=f"It needs {self._credentials()}.",
            )
        if "BadScheme" in words:
            return UsageError(f"{self.url}: its endpoint has no TLS.", hint="AWS_ALLOW_HTTP=true allows that.")
        if code is not None and code < 500 and code not in (408, 429):
            return UsageError(f"{self.url} answers with an error ({code}).", hint="Is it the right address?")
        why = "it cannot be reached, or does not answer in time" if code is None else f"it fails ({code})"
        return StoreError(
            f"{self.url}: {why}.", kind="unreachable", hint="Try again; what has been sent is not sent again."
        )

    def _explain_local(self, error: Exception, words: str) -> ClewError:
        if _NO_SPACE.search(words) or getattr(error, "errno", None) in (28, 122):
            return StoreError(
                f"{self.url}: the disk is full.", kind="full", hint="Free some space and try again; nothing is lost."
            )
        if _NOT_OURS.search(words) or isinstance(error, PermissionError):
            return UsageError(f"{self.url}: you have no permission there.", hint="Check whose folder it is.")
        why = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
        return UsageError(f"{self.url} cannot be used{why}.", hint="Is it the path of a folder?")

    def _credentials(self) -> str:
        return CREDENTIALS.get(urlsplit(self.url).scheme, "")

    def _no_bucket(self) -> UsageError:
        return UsageError(f"There is no such bucket: {self.url}.", hint="Create it first: Clew does not.")


def checked_url(url: str) -> str:
    """The address without a slash at its end. Raises UsageError, which shows it only if it cannot hold a secret."""
    shown = (
        url[:SHOWN_CHARS] if url.isprintable() and not _MAY_HOLD_SECRETS.search(url) else "The address of the remote"
    )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{shown} cannot be read.", hint=f"{_forms()}.") from error
    if parts.scheme not in SCHEMES:
        raise UsageError(f"{shown} has an unknown scheme.", hint=f"{_forms()}.")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment or port is not None:
        raise UsageError(
            "The address of the remote holds a password, a port or a query.",
            hint=f"Credentials and endpoints come from the environment. {_forms()}.",
        )
    if (parts.scheme == "file") == bool(parts.netloc) or (parts.scheme == "file" and not parts.path.strip("/")):
        if parts.scheme == "file" and parts.netloc:
            raise UsageError(f"{shown} is not an absolute path.", hint="It begins with three slashes: file:///path.")
        raise UsageError(f"{shown} is incomplete.", hint=f"{_forms()}.")
    if " " in url:
        raise UsageError(f"{shown} holds a space.", hint="In an address, a space is written %20.")
    if any(part in (".", "..") for part in unquote(parts.path).split("/")) or re.search(r"[\x00-\x20\x7f]", url):
        raise UsageError(f"{shown} is not a plain path.", hint=f"{_forms()}.")
    return url.rstrip("/")


def refuse_mistyped(word: str) -> None:
    """Raises UsageError for a word that is neither a URL nor a thread's name, but looks like an address."""
    if "://" in word or not re.search(r"[:/\\~]", word):
        return
    scheme, colon, rest = word.partition(":")
    if _MAY_HOLD_SECRETS.search(word) or not word.isprintable() or len(word) > SHOWN_CHARS:
        raise UsageError("That is not a URL.", hint=f"{_forms()}.")
    if colon and scheme in SCHEMES:
        meant = f"{scheme}://{'/' if scheme == 'file' else ''}{rest.strip('/')}"
    elif word.startswith("/"):
        meant = f"file://{quote(word)}"
    else:
        raise UsageError(f"{word} is not a URL.", hint=f"{_forms()}.")
    raise UsageError(f"{word} is not a URL.", hint=f"Did you mean {meant}?")


def _forms() -> str:
    return "It looks like s3://bucket/path, gs://bucket/path, az://container/path or file:///path"


def _is_local(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno is not None
