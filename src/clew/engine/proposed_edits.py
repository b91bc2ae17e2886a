"""Reads the files that a tool would change, for the diff that a person is shown before they allow it.

Only regular files in the work directory are read: a link that leads out of it is not followed, and a pipe or a device
cannot make Clew wait. Whatever cannot be read is said, and then the diff shows the edit itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from clew.core.branching.edits import FileEdit
from clew.core.runs.proposed_edits import NEW_FILE, ProposedEdit, proposed_edit

MAX_FILE_BYTES = 1_000_000
MAX_FILES = 20
THE_EDIT = "This is the edit itself."


def proposed_edits(edits: Sequence[FileEdit], cwd: str) -> tuple[ProposedEdit, ...]:
    """What would change, file by file. `cwd` is the work directory, with its links resolved."""
    paths = tuple(dict.fromkeys(edit.path for edit in edits))[:MAX_FILES]
    return tuple(
        proposed_edit(path, [edit for edit in edits if edit.path == path], *_current(path, cwd)) for path in paths
    )


def _current(path: str, cwd: str) -> tuple[str | None, str]:
    """The text of the file now ("" if there is none), and a note about it. None: the note says why it is not known."""
    try:
        real = os.path.realpath(os.path.join(cwd, path))  # noqa: PTH118 - an agent's text, which may be no path
        if not real.startswith(cwd.rstrip("/") + "/"):
            return None, f"The file is outside the work directory, and is not read here. {THE_EDIT}"
        content = _content(real)
    except FileNotFoundError:
        return "", NEW_FILE
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        return None, f"The file cannot be read{f' ({why})' if why else ''}. {THE_EDIT}"
    if content is None:
        return None, f"It is no regular file, or it is larger than {MAX_FILE_BYTES // 1_000_000} MB. {THE_EDIT}"
    try:
        return content.decode(), ""
    except UnicodeDecodeError:
        return None, f"The file is no text in UTF-8. {THE_EDIT}"


def _content(path: str) -> bytes | None:
    """None: it is no regular file, or too large."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
            return None
        content = file.read(MAX_FILE_BYTES + 1)
        return content if len(content) <= MAX_FILE_BYTES else None
