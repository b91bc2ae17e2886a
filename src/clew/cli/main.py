"""The entry point: runs a command and turns whatever comes out of it into words and an exit code.

No traceback reaches a user: what is not an error of ours is written to a file under CLEW_HOME, and CLEW_DEBUG=1 shows
it. `--json` puts the error on stdout as an object too.
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

from clew.errors import Cancelled, ClewError, UsageError


def entry() -> NoReturn:
    """The `clew` script. Leaves at once: all is stored and flushed by then, and the interpreter's own way out takes
    longer than everything else that Clew does after an answer."""
    gc.disable()  # nothing is garbage while modules load; switched on again when the store is open
    _heed_interrupts()
    status = main()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status)


def _heed_interrupts() -> None:
    """A script's shell starts `clew … &` with SIGINT ignored, and Python leaves it so: `kill -INT` would be lost."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def main(argv: Sequence[str] | None = None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        _prepare_streams()
        status = _run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return 1
    except OSError as error:
        _silence_stdout()
        sys.stderr.write(f"clew: the output cannot be written: {error.strerror}\n")
        return 1
    except KeyboardInterrupt:
        return Cancelled.exit_code
    return status


def _run(args: list[str]) -> int:
    import click

    from clew.cli.commands import cli

    try:
        status = cli.main(args, prog_name="clew", standalone_mode=False)
    except ClewError as error:
        return _tell(error, args)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return UsageError.exit_code
    except click.ClickException as error:
        return _tell(_as_usage_error(error, args), args)
    except (click.Abort, KeyboardInterrupt):
        return _tell(Cancelled("Stopped."), args)
    except OSError as error:
        if error.filename is None and error.errno in (errno.EPIPE, errno.ENOSPC, errno.EIO):
            raise  # of our own output
        return _tell_unexpected(error, args)
    except Exception as error:  # noqa: BLE001 - the last net: a bug must not look like one to a user
        return _tell_unexpected(error, args)
    return status if isinstance(status, int) else 0


def _tell(error: ClewError, args: list[str]) -> int:
    from clew.cli import failure

    return failure.tell(error, args)


def _tell_unexpected(error: Exception, args: list[str]) -> int:
    from clew.cli import failure

    return failure.tell_unexpected(error, args)


def _as_usage_error(error: object, args: Sequence[str]) -> UsageError:
    import click

    from clew.cli.failure import command_of

    assert isinstance(error, click.ClickException)
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    path = ctx.command_path if ctx is not None else command_of(args)  # click does not say: an option lacks its value
    words = error.format_message().replace("is not a valid integer range", "is not a whole number")
    return UsageError(words, hint=f"Try {path} --help.")


def _prepare_streams() -> None:
    """An answer may hold what the terminal's encoding cannot show, and a stream may be closed: neither ends a run."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _silence_stdout() -> None:
    """Whoever read our output has gone; the interpreter must not complain about it on its way out."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
