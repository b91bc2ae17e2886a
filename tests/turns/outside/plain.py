"""The agents' own CLIs, as somebody uses them who has never heard of Clew: one prompt, or the TUI in a terminal.

A TUI asks about the theme, the key and the folder when it starts for the first time. `PlainClaude` and `PlainCodex`
answer that in the files where the CLIs keep such answers, in the stage's own home.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

from clew.agents.adapter import Adapter
from clew.agents.claude import Claude
from clew.agents.codex import Codex
from clew.core.session import SessionView
from clew.testing.stage import CODEX_MODEL, MODEL, Stage
from turns.outside.terminal import CTRL_C, CTRL_U, ENTER, ESCAPE, LEFT, TIMEOUT_S, UP, Terminal

PASTE: Final = "\x1b[200~{}\x1b[201~"  # how a terminal sends what was pasted, so that a new line is no Enter


class Tui(Terminal):
    """What both TUIs have in common."""

    input_line: str  # the pattern of an input line without text
    busy: str  # the pattern of what the screen shows while that line is not ready
    done: str  # the pattern of the line below an answer that is complete

    def wait_until_idle(self) -> None:
        self.wait_for(lambda text: bool(re.search(self.input_line, text)) and not re.search(self.busy, text))

    def send(self, prompt: str) -> None:
        """Types a prompt, and sends it as soon as it is on the screen."""
        self.wait_until_idle()
        self.type(PASTE.format(prompt) if "\n" in prompt else prompt)
        first = prompt.split()[0]
        self.wait_for(lambda text: first in _input(text) or "[Pasted" in text)
        self.type(ENTER)

    def wait_for_end(self, answer: str) -> None:
        """Waits until that answer is on the screen, and complete."""
        self.wait_for(rf"{answer}\s[\s\S]*{self.done}")

    def rewind(self, prompt: str) -> None:
        """Goes back to before that prompt, which is on the screen. Files stay as they are."""
        raise NotImplementedError

    def compact(self) -> None:
        raise NotImplementedError

    def interrupt(self) -> None:
        """Stops the answer that is being given."""
        self.type(ESCAPE)
        self.wait_for("(?i)interrupted")

    def quit(self) -> None:
        raise NotImplementedError


def _input(text: str) -> str:
    """What stands after the last sign with which an input line begins."""
    return max(text.rpartition("❯")[2], text.rpartition("›")[2], key=lambda part: -len(part))


def _chosen(text: str) -> str:
    """The line of a dialog that is marked: it is below the conversation."""
    return str(re.findall(r"❯ (.*)", text)[-1])


class ClaudeTui(Tui):
    input_line = r"(?m)^❯\s*$"
    busy = "esc to interrupt"
    done = r"✻ \w+ for"

    def summarise_up_to(self, prompt: str) -> None:
        """Compacts what was said before that prompt, and leaves the rest as it was."""
        self._choose(prompt)
        self.press("3", lambda text: "1. Restore" not in text)  # once the dialog is gone, a 3 would be typed
        self.wait_for("Conversation summarized")

    def rewind(self, prompt: str) -> None:
        self._choose(prompt)
        self.press(ENTER, lambda text: "Restore" not in text)
        self.wait_for(rf"(?m)^❯\s{prompt}\b.*\n─")  # it is in the input line again
        self.type(CTRL_U)

    def _choose(self, prompt: str) -> None:
        """Opens the dialog that asks what shall become of the conversation from that prompt on."""
        self.wait_until_idle()
        self.type(ESCAPE)
        self.type(ESCAPE)
        self.wait_for(lambda text: _chosen(text) == "(current)")
        while (chosen := _chosen(self.text)) != prompt:
            self.press(UP, lambda text, before=chosen: _chosen(text) != before)
        self.press(ENTER, r"❯ 1\. Restore")

    def compact(self) -> None:
        self.send("/compact")
        self.wait_for(r"Compacted")

    def switch_model(self, model: str) -> None:
        """While the conversation is in the prompt cache, the CLI asks whether that is meant."""
        self.send(f"/model {model}")
        self.wait_for(r"❯ 1\. Yes, switch")
        self.press(ENTER, "Set model to")

    def quit(self) -> None:
        self.type(CTRL_C)
        self.wait_for("again to exit")
        self.type(CTRL_C)
        assert self.ended() == 0


class CodexTui(Tui):
    input_line = "› Ask Codex to do anything"
    busy = "Resuming session|esc to interrupt"
    done = "Worked for"

    def rewind(self, prompt: str) -> None:
        self.wait_until_idle()
        prompts = re.findall(r"(?m)^› (\w+)", self.text)[:-1]  # the last one is the input line
        self.type(ESCAPE)
        self.wait_for("esc again to edit")
        self.type(ESCAPE)
        self.wait_for("Browsing transcript")
        for _ in prompts[prompts.index(prompt) + 1 :]:
            self.type(LEFT)
        self.type(ENTER)
        self.wait_for(rf"Conversation reverted[\s\S]*› {prompt}\b")  # it is in the input line again
        self.type(CTRL_U)

    def compact(self) -> None:
        self.send("/compact")
        self.wait_for("Context compacted")

    def quit(self) -> None:
        self.send("/quit")
        assert self.ended() == 0


class PlainCli:
    """One agent's CLI on a stage."""

    adapter: Adapter
    model: str

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def ask(self, session_id: str | None, prompt: str, *flags: str, model: str = "") -> None:
        """One prompt in that session, or in a new one, without a terminal."""
        process = self.start(session_id, prompt, *flags, model=model)
        out, error = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, (out, error)

    def start(self, session_id: str | None, prompt: str, *flags: str, model: str = "") -> subprocess.Popen[str]:
        """The same, without waiting for the answer."""
        command = self._command(session_id, model or self.model, *flags)
        process = subprocess.Popen(
            command,
            cwd=self.stage.work,
            env=self.stage.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(prompt)
        process.stdin.close()
        process.stdin = None
        return process

    def open(self, session_id: str, *flags: str) -> Tui:
        """The TUI, in that session."""
        raise NotImplementedError

    def path(self, session_id: str) -> Path:
        config_dir = self.adapter.config_dir(self.stage.environ)
        path = self.adapter.session_file(config_dir, str(self.stage.work), session_id)
        assert path is not None
        return path

    def read(self, session_id: str) -> SessionView:
        return self.adapter.read_session(self.path(session_id))

    def newest(self) -> str:
        """The id of the session that was begun last."""
        found = self.adapter.session_paths(self.adapter.config_dir(self.stage.environ))
        return max(found, key=lambda path: path.stat().st_mtime).stem[-36:]

    def _command(self, session_id: str | None, model: str, *flags: str) -> list[str]:
        raise NotImplementedError


class PlainClaude(PlainCli):
    adapter = Claude()
    model = MODEL

    def _command(self, session_id: str | None, model: str, *flags: str) -> list[str]:
        # The scripted agent knows no other output format.
        output = ["--output-format", "stream-json", "--verbose"]
        edits = ["--permission-mode", "acceptEdits"]
        resume = [f"--resume={session_id}"] if session_id else []
        return [str(self.stage.binary), "-p", *resume, "--model", model, *output, *edits, *flags]

    def open(self, session_id: str, *flags: str) -> ClaudeTui:
        self._answer_first_questions()
        command = [str(self.stage.binary), f"--resume={session_id}", "--model", MODEL, *flags]
        return ClaudeTui(command, self.stage.environ, self.stage.work)

    def _answer_first_questions(self) -> None:
        path = self.stage.home / ".claude.json"
        state: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        state |= {"hasCompletedOnboarding": True, "theme": "dark"}
        state["customApiKeyResponses"] = {"approved": [self.stage.environ["ANTHROPIC_API_KEY"]], "rejected": []}
        project = state.setdefault("projects", {}).setdefault(str(self.stage.work.resolve()), {})
        project["hasTrustDialogAccepted"] = True
        path.write_text(json.dumps(state))


class PlainCodex(PlainCli):
    adapter = Codex()
    model = CODEX_MODEL

    def _command(self, session_id: str | None, model: str, *flags: str) -> list[str]:
        resume = ["resume", session_id] if session_id else []
        return [str(self.stage.codex), "exec", *resume, "--skip-git-repo-check", "-m", model, *flags, "-"]

    def open(self, session_id: str, *flags: str) -> CodexTui:
        self._answer_first_questions()
        # Without the flag, a server is started that outlives the TUI and holds the session's lock.
        command = [str(self.stage.codex), "resume", "--no-daemon", *flags, session_id]
        return CodexTui(command, self.stage.environ, self.stage.work)

    def _answer_first_questions(self) -> None:
        path = self.stage.home / ".codex" / "config.toml"
        trust = f'\n[projects."{self.stage.work.resolve()}"]\ntrust_level = "trusted"\n'
        if trust not in path.read_text():
            path.write_text(path.read_text() + trust)
