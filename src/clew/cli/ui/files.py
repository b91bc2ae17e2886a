"""Files that a command writes where the user says: `--output FILE`, and `--force` to replace one that exists."""

from __future__ import annotations

import os
from pathlib import Path

from clew.errors import Conflict, UsageError


def output_path(output: str, *, force: bool) -> Path:
    """The path that was given. It is checked before the work begins, so that `write_output` does not fail after it."""
    from clew.api.files import named_path

    path = named_path(output)
    try:
        check_output(path, force=force)
    except OSError as error:  # a name that no file can have
        raise UsageError(f"--output cannot be written: {error.strerror}.", hint="Name another file.") from error
    return path


def check_output(path: Path, *, force: bool) -> None:
    """Raises UsageError for what is not a file, and Conflict for a file that exists, unless `force`."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory.", hint="--output needs the name of a file.")
    if path.exists() and not path.is_file():  # a device or a pipe, which a file would replace
        raise UsageError(f"{path} is not a file.", hint="--output needs the name of a file.")
    if not force and os.path.lexists(path):
        raise _exists(path)


def write_output(path: Path, content: bytes, *, force: bool) -> None:
    """Writes the whole file or nothing, readable by its owner alone. Raises as `check_output` does."""
    from clew.api.files import write_whole

    check_output(path, force=force)
    try:
        write_whole(path, content, replace=force)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", hint="Name another --output.") from error


def _exists(path: Path) -> Conflict:
    return Conflict(f"{path} already exists.", hint="--force replaces it.")
