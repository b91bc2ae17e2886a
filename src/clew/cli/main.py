"""The entry point: runs a command and turns whatever it raises into a message and an exit code.

The user sees no traceback: that of an unexpected error is written to a file under CLEW_HOME, and CLEW_DEBUG=1 prints
it. `--json` also puts the error on stdout as an object.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn, TextIO

from clew.errors import Cancelled, UsageError

OUTPUT_FAILED = (errno.EPIPE, errno.ENOSPC, errno.EIO)  # in an error without a file name: our own output failed


def entry() -> NoReturn:
    """The `clew` script. Exits without the interpreter's own shutdown: everything is stored and flushed by then, and
    the shutdown would take longer than everything else that Clew does after an answer."""
    if sys.platform == "win32":
        sys.exit("clew: Clew does not work on Windows. Use it on Linux or macOS, or in WSL.")
    os._exit(run_to_end())


def run_to_end() -> int:
    """Runs the command of this process. Returns its exit status, with nothing left to be written."""
    gc.disable()  # nothing is garbage while modules load; enabled again when the store is open
    _restore_sigint()
    status = main(ends_process=True)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return status


def _restore_sigint() -> None:
    """Makes `kill -INT` work for `clew … &` in a script: a shell starts background commands with SIGINT ignored, and
    Python leaves it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def main(argv: Sequence[str] | None = None, *, ends_process: bool = False) -> int:
    """Returns the exit code. `ends_process`: the caller ends the process at once."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        _prepare_streams()
        status = _run(args, ends_process=ends_process)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return 1
    except OSError as error:
        _silence_stdout()
        with contextlib.suppress(OSError):  # stderr may be the same terminal, which was closed
            sys.stderr.write(f"clew: the output cannot be written: {error.strerror}\n")
        return 1
    except KeyboardInterrupt:
        return Cancelled.exit_code
    return status


def _run(args: list[str], *, ends_process: bool) -> int:
    import click

    from clew.cli.commands import ENDS_PROCESS, cli

    try:
        status = cli.main(args, prog_name="clew", standalone_mode=False, obj=ENDS_PROCESS if ends_process else None)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return UsageError.exit_code
    except (Exception, KeyboardInterrupt) as error:  # a bug must not reach the user as a traceback
        if isinstance(error, OSError) and error.filename is None and error.errno in OUTPUT_FAILED:
            raise
        from clew.cli import error_report

        return error_report.report(error, args)
    return status if isinstance(status, int) else 0


def _prepare_streams() -> None:
    """Makes sure that a run does not fail because of a character that the encoding lacks, or because of a closed
    stream, and that nothing but colours controls a terminal."""
    sys.stdout = sys.stdout or _null_stream()
    sys.stderr = sys.stderr or _null_stream()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if sys.stdout.isatty() or sys.stderr.isatty():
        from clew.cli.ui.safe_stream import guarded

        sys.stdout, sys.stderr = guarded(sys.stdout), guarded(sys.stderr)


def _null_stream() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _silence_stdout() -> None:
    """The reader of our output is gone; the interpreter must not report that when it exits."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
