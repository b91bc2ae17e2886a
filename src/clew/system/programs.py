"""Finds programs on the PATH."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def on_path(name: str, environ: Mapping[str, str]) -> Path | None:
    """Like `shutil.which`, without its import, which would slow down every start."""
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        found = f"{folder or '.'}/{name}"  # a Path for each of a dozen folders would take longer than the check
        if is_program(found):
            return Path(found).absolute()
    return None


def is_program(path: Path | str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113
