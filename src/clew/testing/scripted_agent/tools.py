"""The implemented tools: Bash, Write, Read and AskUserQuestion. Every other tool gives an error result."""
# ruff: noqa: PTH103, PTH110, PTH120, PTH123

from __future__ import annotations

import os
from _signal import SIG_DFL, SIGKILL, SIGPIPE, SIGXFSZ, signal  # type: ignore[import-not-found]

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from .host import Host
    from .lines import Line
    from .options import Options

TOOLS = ("AskUserQuestion", "Bash", "Edit", "Glob", "Grep", "Read", "Write")


class Toolbox:
    """The tools of this process, and the running command, if any."""

    def __init__(self, options: Options, host: Host) -> None:
        self.host = host
        names = options.words("--tools")
        known = "--tools" not in options or "default" in names
        self.names = [name for name in TOOLS if known or name in names]
        self.child: int | None = None

    def run(self, name: str, tool_input: Line) -> tuple[str, bool, object]:
        """The result for the model, whether it is an error, and the result for the host."""
        if name == "Bash":
            return self.run_bash(tool_input["command"])
        if name == "Write":
            return self.write_file(tool_input["file_path"], tool_input["content"])
        if name == "Read":
            return self.read_file(tool_input["file_path"])
        if name == "AskUserQuestion":
            answers = ", ".join(f'"{asked}"="{answer}"' for asked, answer in tool_input.get("answers", {}).items())
            text = f"Your questions have been answered: {answers}. You can now continue with these answers in mind."
            return text, False, tool_input
        problem = f"Error: {name} is not part of the scripted agent"
        return f"<tool_use_error>{problem}</tool_use_error>", True, problem

    def run_bash(self, command: str) -> tuple[str, bool, object]:
        out, code = b"", None
        self.child, pipe = start_bash(command)
        while code is None:
            if self.host.wait(pipe, 0.05):
                data = os.read(pipe, 1 << 16)
                out += data
                code = None if data else ended(self.child, 0)
            else:  # the command may have ended although a child of it still holds the pipe
                code = ended(self.child, os.WNOHANG)
        os.close(pipe)
        self.child = None
        text = out.decode("utf-8", "replace").rstrip("\n")
        if code:
            text = f"Exit code {code}\n{text}"
            return text, True, f"Error: {text}"
        for_host = {"stdout": text, "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}
        return text or "(Bash completed with no output)", False, for_host

    def kill_child(self) -> None:
        if self.child is not None:
            if ended(self.child, os.WNOHANG) is None:
                os.killpg(self.child, SIGKILL)
            self.child = None

    def write_file(self, path: str, content: str) -> tuple[str, bool, object]:
        existed = os.path.exists(path)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
        except OSError as problem:
            return f"Error: {problem}", True, f"Error: {problem}"
        for_host = {"type": "update" if existed else "create", "filePath": path, "content": content}
        if existed:
            return f"The file {path} has been updated successfully.", False, for_host
        text = f"File created successfully at: {path} (file state is current in your context — no need to Read it back)"
        return text, False, for_host

    def read_file(self, path: str) -> tuple[str, bool, object]:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            problem = f"File does not exist. Note: your current working directory is {self.host.cwd}."
            return problem, True, f"Error: {problem}"
        lines = text.split("\n")
        shown = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
        return shown, False, {"type": "text", "file": {"filePath": path, "content": text, "numLines": len(lines)}}


def start_bash(command: str) -> tuple[int, int]:
    """Starts a command; returns its pid and its output pipe. As in the real CLI, the command has a process session of
    its own, so that killing the agent's process group does not kill it."""
    pipe, out = os.pipe()
    started, starting = os.pipe()  # `starting` is closed when bash starts
    pid = os.fork()  # `subprocess` takes longer to import than bash to start
    if pid == 0:
        try:
            os.setsid()
            for number in (SIGPIPE, SIGXFSZ):  # Python ignores these signals; bash must not
                signal(number, SIG_DFL)
            for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), out, out)):
                os.dup2(descriptor, number)
            os.execvp("bash", ["bash", "-c", command])
        finally:
            os._exit(127)
    os.close(out)
    os.close(starting)
    os.read(started, 1)  # from here on its process session exists and can be killed
    os.close(started)
    return pid, pipe


def ended(pid: int, flags: int) -> int | None:
    """The exit status; None while the process runs."""
    found, status = os.waitpid(pid, flags)
    return os.waitstatus_to_exitcode(status) if found else None
