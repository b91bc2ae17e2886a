"""What a command hands over: itself as a list of words, and its open files.

Theory of operation
    The client connects and sends the words at once, separated by zero bytes, after their length. The resident
    forks a process for the connection, which reads the words and checks whether it may stand for the caller. From then
    on, each side sends lines:

        ready PID VERSION    the process could carry the command out. It does nothing before `go`
        declined WHY         it cannot; the client does the work itself
    >   go                   with the descriptors; from here on, the client never carries the command out itself
        failed               it did nothing: it could not take the descriptors
        typing               the process is about to read from the terminal: may the client's job do that?
    >   yes                  it may: it is in the foreground
        stopped SIGNAL       the process was suspended
        exiting STATUS       the process says so itself, and ends
        exit STATUS          it has ended
        killed SIGNAL        a signal has ended it

    A request of no words asks for `status PID …`: the resident, and the processes that carry out commands.

    A client that hears nothing in time closes the connection, and the process ends when it reads that instead of `go`.
    Descriptors are sent no earlier: in the queue of a stopped resident they would keep the caller's pipes open.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing would take longer to load than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PROTOCOL = "clew-resident-1"
GO = b"go\n"
LENGTH_BYTES = 8
MAX_BYTES = 16 << 20  # arguments and environment: Linux allows 6 MiB at most
STREAMS = ("0", "1", "2")
FOLDER, TERMINAL = "folder", "terminal"


class Request:
    """A command as it was started. `streams` are the encodings of those that are open, `files` name the descriptors."""

    __slots__ = (
        "arguments",
        "environ",
        "files",
        "flags",
        "group",
        "groups",
        "ignored",
        "install",
        "mask",
        "streams",
        "user",
        "version",
    )

    def __init__(
        self,
        *,
        version: str,
        install: str,
        user: int,
        group: int,
        groups: Sequence[int],
        mask: int,
        flags: str,
        ignored: Sequence[int],
        streams: Sequence[str],
        files: Sequence[str],
        arguments: Sequence[str],
        environ: Mapping[bytes, bytes],
    ) -> None:
        self.version = version
        self.install = install  # see `install_of`
        self.user = user
        self.group = group
        self.groups = groups
        self.mask = mask  # the umask
        self.flags = flags  # of the interpreter
        self.ignored = ignored  # numbers of signals
        self.streams = streams  # "0:utf-8:strict"
        self.files = files
        self.arguments = arguments  # sys.argv
        self.environ = environ  # bytes to bytes

    def encode(self) -> bytes:
        words = [
            *(PROTOCOL, self.version, self.install, str(self.user), str(self.group), str(self.mask), self.flags),
            *(_joined(each) for each in (self.groups, self.ignored, self.streams, self.files)),
            str(len(self.arguments)),
            *self.arguments,
        ]
        body = b"\0".join([*map(os.fsencode, words), *(b"%b=%b" % pair for pair in self.environ.items())])
        return len(body).to_bytes(LENGTH_BYTES, "big") + body


def decode(body: bytes) -> Request:
    """The request. Raises ValueError for anything else."""
    protocol, version, install, user, group, mask, flags, *words = body.split(b"\0")
    if os.fsdecode(protocol) != PROTOCOL:
        raise ValueError("another protocol")
    groups, ignored, streams, files = (os.fsdecode(each).split() for each in words[:4])
    count = int(words[4])
    arguments = [os.fsdecode(each) for each in words[5 : 5 + count]]
    if len(arguments) != count:
        raise ValueError("incomplete")
    pairs = [each.partition(b"=") for each in words[5 + count :]]
    return Request(
        version=os.fsdecode(version),
        install=os.fsdecode(install),
        user=int(user),
        group=int(group),
        groups=[int(each) for each in groups],
        mask=int(mask),
        flags=os.fsdecode(flags),
        ignored=[int(each) for each in ignored],
        streams=streams,
        files=files,
        arguments=arguments,
        environ={name: value for name, _, value in pairs},
    )


def _joined(values: Iterable[object]) -> str:
    return " ".join(map(str, values))


def install_of(package: str) -> str:
    """Identifies the files of an installation: an upgrade replaces them."""
    found = os.stat(os.path.join(package, "__init__.py"))
    return f"{sys.prefix} {package} {found.st_dev} {found.st_ino} {found.st_mtime_ns} {found.st_size}"


def flags_of_interpreter() -> str:
    """How the interpreter was started. Variables PYTHON… are compared beside them."""
    return f"{sys.version_info[:3]} {tuple(sys.flags)} {sys.warnoptions} {sys.getfilesystemencoding()}"
