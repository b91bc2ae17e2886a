"""A stage for tests: a scripted model API, an agent's binary, a home and a work directory, all isolated and temporary.

    with ModelApi() as api:
        stage = Stage(tmp_path, api, real_claude())          # or scripted_agent.install(tmp_path / "bin")
        async with stage.open() as client:
            ...
        assert stage.launches[-1].resumes

`Stage(…, codex=real_codex())` adds the second agent. Each binary is started by a small launcher that logs the command
line, so that flags can be asserted on a real CLI as well as on the scripted one. What the model was shown is in the
API's requests.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew.agents.adapter import Adapter
from clew.api import client
from clew.testing.model.api import ModelApi

MODEL = "claude-sonnet-4-5"
CODEX_MODEL = "gpt-5.5-codex"

# The login of a subscription: with it, the API says when the usage limit resets.
SUBSCRIPTION = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "dummy"}

# The model is on the loopback, failures are not retried, and nothing connects to the vendor.
CODEX_CONFIG = """\
model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false
analytics.enabled = false
features.plugins = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_API_KEY"
request_max_retries = 0
stream_max_retries = 0

[sandbox_workspace_write]  # both the tests' folders and the files that they must not change are below /tmp
exclude_slash_tmp = true
exclude_tmpdir_env_var = true
"""


def scrubbed_environ(home: Path, api_url: str) -> dict[str, str]:
    """An environment without anything of the user's: another home, a dummy key, no telemetry, no updates."""
    return {
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "ANTHROPIC_BASE_URL": api_url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }


def real_claude() -> Path:
    """The Claude CLI in the installed claude-agent-sdk wheel. Raises FileNotFoundError: no test may pass without it."""
    import importlib.util

    spec = importlib.util.find_spec("claude_agent_sdk")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("claude-agent-sdk is not installed: it brings the Claude CLI")
    path = Path(spec.origin).parent / "_bundled" / "claude"
    if not path.is_file():
        raise FileNotFoundError(f"no Claude CLI in this claude-agent-sdk: {path}")
    return path


def real_codex() -> Path:
    """The Codex CLI in the installed openai-codex-cli-bin wheel. Raises FileNotFoundError, like `real_claude`."""
    import importlib.util

    spec = importlib.util.find_spec("codex_cli_bin")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("openai-codex-cli-bin is not installed: it brings the Codex CLI")
    path = Path(spec.origin).parent / "bin" / "codex"
    if not path.is_file():
        raise FileNotFoundError(f"no Codex CLI in this openai-codex-cli-bin: {path}")
    return path


@functools.cache
def _probe_outputs(binary: Path) -> Path:
    """A folder with the binary's help and version: one file for each, named by its arguments."""
    folder = Path(tempfile.mkdtemp(prefix="clew-probes-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environ = scrubbed_environ(folder, "http://127.0.0.1:9")
    for arguments in ("exec --help", "--version") if binary.name == "codex" else ("--help", "--version"):
        command = [str(binary), *arguments.split()]
        done = subprocess.run(
            command, env=environ, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
        if done.returncode == 0:
            (folder / arguments).write_bytes(done.stdout)
    return folder


@dataclass(frozen=True, slots=True)
class AgentLaunch:
    """One spawned agent: its arguments (without the program) and the program's name."""

    argv: tuple[str, ...]
    agent: str = "claude"

    @property
    def is_turn(self) -> bool:
        return "-p" in self.argv or (self.argv[:1] == ("exec",) and "--json" in self.argv)

    @property
    def resumes(self) -> str | None:
        """The session that it resumes, if any."""
        for word in self.argv:
            if word.startswith("--resume="):
                return word.removeprefix("--resume=")
        return self.argv[-2] if self.argv[:2] in (("exec", "resume"), ("exec", "fork")) else None

    @property
    def session_id(self) -> str | None:
        return self.value("--session-id")

    def value(self, flag: str) -> str | None:
        return self.argv[self.argv.index(flag) + 1] if flag in self.argv else None


class Stage:
    """One test's environment under `folder`. All addresses are on the loopback, all keys are dummies."""

    def __init__(
        self, folder: Path, api: ModelApi, binary: Path, name: str = "claude", codex: Path | None = None
    ) -> None:
        self.folder = folder
        self.api = api
        self.home = folder / "home"
        self.work = folder / "work"
        self.clew_home = folder / "clew"
        self.script = folder / "script.json"
        self.account: Mapping[str, str] = {}  # how the agent logs in; empty: with a dummy API key
        self._log = folder / f"launches-{name}.log"
        for path in (self.home, self.work):
            path.mkdir(parents=True, exist_ok=True)
        self.agent = binary  # the program that the launcher starts
        self.fault()
        self.binary = self.launcher(binary, folder / "bin" / name)
        self.codex = self._install_codex(codex) if codex else None

    def _install_codex(self, binary: Path) -> Path:
        home = self.home / ".codex"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(CODEX_CONFIG.format(model=CODEX_MODEL, url=self.api.url))
        return self.launcher(binary, self.folder / "bin" / "codex")

    def launcher(self, binary: Path, path: Path) -> Path:
        """A program at `path` that logs its command line and then executes `binary`.

        The binary's help and version are read once for all stages of this process; after that, the launcher prints them
        from a file.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        log, name = shlex.quote(str(self._log)), shlex.quote(path.name)
        # One write, because two agents may be started at the same time.
        log_line = f"printf '%s\\n' \"$(printf '%s\\037' {name} \"$@\")\" >> {log}"
        output = f'{shlex.quote(str(_probe_outputs(binary)))}/"$*"'
        answer_probe = f"[ $# -lt 3 ] && [ -f {output} ] && exec cat {output}"
        path.write_text(f'#!/bin/sh\n{log_line}\n{answer_probe}\nexec {shlex.quote(str(binary))} "$@"\n')
        path.chmod(0o755)
        return path

    @property
    def environ(self) -> dict[str, str]:
        return scrubbed_environ(self.home, self.api.url) | {
            "PATH": f"{self.folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "CLEW_HOME": str(self.clew_home),
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "CLEW_SCRIPT": str(self.script),
            **self.account,
            **({"CODEX_HOME": str(self.home / ".codex"), "SCRIPTED_API_KEY": "dummy"} if self.codex else {}),
        }

    def open(
        self, *, environ: Mapping[str, str] | None = None, adapters: Iterable[Adapter] = (), **flags: Any
    ) -> AbstractAsyncContextManager[client.Client]:
        """A client on this stage's store. It names the model, so that nothing depends on an agent's default."""
        flags.setdefault("model", CODEX_MODEL if flags.get("agent") == "codex" else MODEL)
        if self.codex:
            flags.setdefault("agents.codex.model", CODEX_MODEL)
        return client.open(environ={**self.environ, **(environ or {})}, adapters=adapters, **flags)

    def fault(self, *faults: Mapping[str, Any]) -> None:
        """Sets the scripted agent's faults from now on; without arguments, it has none."""
        self.script.write_text(json.dumps({"faults": list(faults)}))

    @property
    def launches(self) -> list[AgentLaunch]:
        """Every turn that was spawned, oldest first, without probes."""
        if not self._log.exists():
            return []
        lines = self._log.read_text().splitlines()
        logged = [AgentLaunch(tuple(argv), name) for name, *argv in (line.split("\037")[:-1] for line in lines)]
        return [launch for launch in logged if launch.is_turn]

    @property
    def probes(self) -> int:
        """How often a binary was asked for its help."""
        return self._log.read_text().count("--help") if self._log.exists() else 0

    @property
    def shown(self) -> list[tuple[str, str]]:
        """What the model was shown in the newest request of a conversation, as (role, text)."""
        return list(self.api.main_requests[-1].shown_texts())

    @property
    def prompt(self) -> str:
        """The newest user text that the model was shown: what Clew sent."""
        return [text for role, text in self.shown if role == "user"][-1]

    def session_files(self) -> list[Path]:
        """Claude's session files."""
        return sorted((self.home / ".claude" / "projects").glob("*/*.jsonl"))

    def codex_files(self) -> list[Path]:
        """Codex's session files, oldest first."""
        return sorted((self.home / ".codex" / "sessions").glob("*/*/*/rollout-*.jsonl"))

    def processes(self) -> list[int]:
        """Every live process that this stage's agents started (they have its home in their environment)."""
        wanted = f"HOME={self.home}".encode()
        found = []
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                held = Path(entry.path, "environ").read_bytes().split(b"\0")
                state = Path(entry.path, "stat").read_bytes().rsplit(b")", 1)[1].split()[0]
            except OSError:
                continue
            if wanted in held and state != b"Z":
                found.append(int(entry.name))
        return found
