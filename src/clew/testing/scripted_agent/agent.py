"""The process: it opens its session and answers one prompt after the other."""
# ruff: noqa: PTH109, PTH119

from __future__ import annotations

import gc
import os
import sys
import time
from _signal import SIGINT, SIGTERM, set_wakeup_fd, signal  # type: ignore[import-not-found]

from .compaction import is_compaction
from .faults import Faults, hang
from .host import Host, Interrupted
from .lines import is_uuid, new_id, text_of, zero_usage
from .options import PRODUCT, VERSION, Refused, help_text, read_argv
from .session import NoConversation
from .session_file import open_session
from .tools import Toolbox
from .turn import ScriptedTurn

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from typing import NoReturn

    from .lines import Line
    from .options import Options
    from .session import ScriptedSession


class ScriptedAgent:
    """One process: it reads the host's lines on stdin at any time, and answers one prompt after the other."""

    def __init__(self, options: Options, version: str) -> None:
        self.options, self.version = options, version
        self.partial = "--include-partial-messages" in options
        self.host = Host(options, os.path.realpath(os.getcwd()))
        self.toolbox = Toolbox(options, self.host)
        self.session: ScriptedSession
        self.faults = Faults("--resume" in options)
        self.last_prompt = ""
        self.quitting = False
        self.rc = self.results = 0

    def run(self) -> int:
        os.set_blocking(self.host.waker, False)
        set_wakeup_fd(self.host.waker, warn_on_full_buffer=False)
        signal(SIGTERM, self.on_term)
        signal(SIGINT, self.on_int)
        try:
            self.session = self.host.session = open_session(self.options, self.host.cwd, self.version)
            self.fail_early()
            self.work()
        except NoConversation as problem:
            return self.reject(str(problem))
        except Refused as problem:
            sys.stderr.write(f"{problem}\n")
            return 1
        finally:
            if not self.host.logged:
                self.host.log([])
        return self.rc

    def reject(self, text: str) -> int:
        """Ends a failed resume: sends a result line, whose session id has no meaning, and returns the exit code."""
        wanted = self.options.one("--resume")
        line: Line = {"type": "result", "subtype": "error_during_execution", "duration_ms": 0, "duration_api_ms": 0}
        line.update(is_error=True, num_turns=0, stop_reason=None, total_cost_usd=0, usage=zero_usage(), modelUsage={})
        line.update(session_id=wanted if is_uuid(wanted) else new_id(), permission_denials=[], uuid=new_id())
        self.host.emit({**line, "errors": [text], "result_index": 0})
        sys.stderr.write(f"{text}\n")
        self.host.log_waiting_prompt()
        return 1

    def fail_early(self) -> None:
        self.faults.turn = self.session.prompts() + 1
        if fault := self.faults.take("slow_start"):
            time.sleep(fault.get("delay_s", 1))
        if self.faults.take("reject"):
            raise NoConversation(f"No conversation found with session ID: {self.options.one('--resume')}")
        if self.faults.take("lie_success_empty"):
            self.host.log_waiting_prompt()
            os._exit(0)

    def work(self) -> None:
        if self.options.one("--input-format", "text") != "stream-json":
            prompt = " ".join(self.options.get("prompt", [])) or sys.stdin.read()
            self.host.stdin_open = False
            if prompt.strip():
                self.host.queue.append({"message": {"role": "user", "content": prompt}})
                self.host.log([prompt])
        try:
            while self.host.stdin_open or self.host.queue:
                if self.host.queue:
                    self.turn(self.host.queue.pop(0))
                elif not self.quitting:
                    self.host.wait()
                if self.quitting:
                    break
        except Interrupted:  # by a signal while no turn runs
            pass
        if self.results:
            self.session.end(self.last_prompt)

    def turn(self, line: Line) -> None:
        self.host.busy = True
        content = line["message"]["content"]
        self.last_prompt = self.session.last_prompt() if is_compaction(content) else text_of(content)
        failed = ScriptedTurn(self, line).run()
        self.results += 1
        self.rc = int(failed and not self.quitting)
        self.host.busy, self.host.interrupt, self.session.saving = False, False, True
        if fault := self.faults.take("hang_after_result"):
            hang(fault)

    def on_term(self, *_: object) -> None:
        self.toolbox.kill_child()
        if self.host.busy or self.results:
            self.session.end(self.last_prompt)
        os._exit(143)

    def on_int(self, *_: object) -> None:
        self.host.interrupt = self.quitting = True


def main(argv: list[str], product: str = PRODUCT, version: str = VERSION, resume: bool = True) -> NoReturn:
    try:
        options = read_argv(argv[1:])
        if "--version" in options:
            print(f"{version} ({product})")
            sys.exit(0)
        if "--help" in options:
            print(help_text(os.path.basename(argv[0]), product, resume))
            sys.exit(0)
        if options.one("--output-format") != "stream-json":
            raise Refused("The scripted agent speaks only --output-format stream-json")
    except Refused as problem:
        sys.stderr.write(f"{problem}\n")
        sys.exit(1)
    gc.disable()  # the process lives only for a few turns
    os._exit(ScriptedAgent(options, version).run())  # everything is written; a normal exit would take 3 ms longer
