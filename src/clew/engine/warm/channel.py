"""One end of a connection between two processes of Clew: messages, some of them with descriptors.

A message is four bytes with its size, and then a JSON object of that size. Descriptors travel with its first byte. Both
sides alternate, so a message is read to its last byte and no further: descriptors that come meanwhile belong to it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import socket
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, TypeVar

from clew.core.record import Record, fields_of
from clew.engine.process.handing import PIPES
from clew.system.forks import closed_in_forks

MAX_BYTES = 64 * 1024  # of one message

_SIZE = struct.Struct("!I")
_INT_BYTES = array("i").itemsize
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_CLOSED_IN_PROGRAMS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, NoneType),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}

R = TypeVar("R", bound=Record)


class BadMessage(ValueError):
    """What came is no message of this protocol."""


class Message:
    """What was received. Whoever receives it closes it; descriptors that were taken out of it are not closed."""

    def __init__(self, content: Mapping[str, Any], descriptors: list[int]) -> None:
        self.content = content
        self._descriptors = descriptors

    def take_descriptors(self) -> list[int]:
        taken, self._descriptors = self._descriptors, []
        return taken

    def record(self, cls: type[R], name: str) -> R:
        """The record in that field. Raises BadMessage."""
        return record_of(cls, self.content.get(name))

    def text(self, name: str) -> str:
        value = self.content.get(name)
        if not isinstance(value, str):
            raise BadMessage(f"{name} is no text")
        return value

    def close(self) -> None:
        _close_all(self.take_descriptors())


class Channel:
    """Takes the socket over."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = closed_in_forks(connection)

    async def send(self, content: Mapping[str, object], descriptors: Sequence[int] = ()) -> None:
        """Raises OSError if the other side is gone. The descriptors are duplicated: they stay open here."""
        data = json.dumps(content).encode("ascii")
        if len(data) > MAX_BYTES:
            raise BadMessage("the message is too long")
        left = memoryview(_SIZE.pack(len(data)) + data)
        loop = asyncio.get_running_loop()
        extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))] if descriptors else []
        while left:
            try:
                sent = self._socket.sendmsg([left], extra, _NO_SIGNAL)
            except BlockingIOError:
                await self._ready(loop.add_writer, loop.remove_writer)
                continue
            left, extra = left[sent:], []

    async def receive(self) -> Message | None:
        """The next message; None: the other side has closed. Raises BadMessage or OSError."""
        descriptors: list[int] = []
        try:
            head = await self._exactly(_SIZE.size, descriptors)
            if not head:
                _close_all(descriptors)
                return None
            [size] = _SIZE.unpack(head)
            if size > MAX_BYTES:
                raise BadMessage("the message is too long")
            return Message(_object(await self._exactly(size, descriptors)), descriptors)
        except BaseException:
            _close_all(descriptors)
            raise

    def close(self) -> None:
        self._socket.close()

    async def _exactly(self, size: int, descriptors: list[int]) -> bytes:
        """That many bytes; none if the other side closed before the first of them."""
        loop = asyncio.get_running_loop()
        data = bytearray()
        while len(data) < size:
            try:
                part, extra, flags, _ = self._socket.recvmsg(
                    size - len(data), socket.CMSG_SPACE(PIPES * _INT_BYTES), _CLOSED_IN_PROGRAMS
                )
            except BlockingIOError:
                await self._ready(loop.add_reader, loop.remove_reader)
                continue
            descriptors += _received(extra)
            if flags & socket.MSG_CTRUNC or len(descriptors) > PIPES:
                raise BadMessage("there are too many descriptors")
            if not part:
                if data:
                    raise BadMessage("the message is cut off")
                return b""
            data += part
        return bytes(data)

    async def _ready(self, add: Callable[..., object], remove: Callable[..., object]) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        add(self._socket, _set, ready)
        try:
            await ready
        finally:
            remove(self._socket)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def record_of(cls: type[R], content: object) -> R:
    """The record with these fields, if they are all there and of the right types. Raises BadMessage."""
    if not isinstance(content, dict) or content.keys() != set(fields_of(cls)):
        raise BadMessage(f"this is no {cls.__name__}")
    for name, kind in inspect.get_annotations(cls).items():
        if type(content[name]) not in _KINDS[str(kind)]:
            raise BadMessage(f"{name} is no {kind}")
    return cls(**content)


def _object(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadMessage("this is no JSON") from error
    if not isinstance(content, dict):
        raise BadMessage("this is no JSON object")
    return content


def _received(extra: Sequence[tuple[int, int, bytes]]) -> list[int]:
    numbers = array("i")
    for level, kind, data in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % _INT_BYTES])
    for number in numbers if not _CLOSED_IN_PROGRAMS else ():
        os.set_inheritable(number, False)
    return numbers.tolist()


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
