"""The scripted agent on its own, and side by side with the CLI that it imitates."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from clew.testing.model.api import ModelApi
from clew.testing.model.scripts import FINAL, Fail
from clew.testing.scripted_agent import install

Line = dict[str, Any]
FLAGS = [
    *("-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"),
    *("--include-partial-messages", "--permission-prompt-tool", "stdio", "--model", "claude-sonnet-4-5"),
]
RESULT_KEYS = {
    *("type", "subtype", "is_error", "session_id", "uuid", "num_turns", "stop_reason", "usage", "modelUsage"),
    *("total_cost_usd", "duration_ms", "duration_api_ms", "permission_denials", "user_message_uuid"),
}


@dataclass(frozen=True)
class Done:
    """The output and the exit status of a process."""

    lines: list[Line]
    rc: int
    stderr: str
    raw: bytes

    @property
    def result(self) -> Line:
        return [line for line in self.lines if line["type"] == "result"][-1]

    @property
    def kinds(self) -> list[str]:
        """The line types in order, without stream events: a question may arrive before the end of the message."""
        shown = [line for line in self.lines if line["type"] != "stream_event"]
        return ["/".join(str(line[key]) for key in ("type", "subtype", "state") if key in line) for line in shown]

    @property
    def events(self) -> list[str]:
        return [line["event"]["type"] for line in self.lines if line["type"] == "stream_event"]


@dataclass(frozen=True)
class Bench:
    """A binary with its own home, work directory and model."""

    binary: Path
    root: Path
    api: ModelApi

    def run(
        self,
        *prompts: str | Line,
        args: tuple[str, ...] = (),
        cwd: str = "work",
        answer: Mapping[str, Any] | None = None,
        on: Callable[[Line, subprocess.Popen[bytes]], None] = lambda line, process: None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 60,
    ) -> Done:
        """Send the prompts one after the other, each after the result of the last; answer every question alike."""
        (self.root / cwd).mkdir(exist_ok=True)
        with (self.root / "stderr").open("wb") as stderr:
            process = subprocess.Popen(
                [self.binary, *FLAGS, *args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=self.root / cwd,
                env={**self.base_env(), **(env or {})},
            )
        assert process.stdin and process.stdout
        waiting = [prompt if isinstance(prompt, dict) else prompt_line(prompt) for prompt in prompts]
        raw, lines = b"", []
        deadline = time.monotonic() + timeout_s
        send(process, *waiting[:1])
        with process:
            for text in process.stdout:
                assert time.monotonic() < deadline
                raw += text
                try:
                    line = json.loads(text)
                except ValueError:
                    continue
                if not isinstance(line, dict):
                    continue
                lines.append(line)
                on(line, process)
                if line["type"] == "control_request" and answer is not None:
                    send(process, reply(line, answer))
                if line["type"] == "result":
                    waiting = waiting[1:]
                    send(process, *waiting[:1]) if waiting else process.stdin.close()
        return Done(lines, process.returncode, (self.root / "stderr").read_text(), raw)

    def base_env(self) -> dict[str, str]:
        names = {"ANTHROPIC_BASE_URL": self.api.url, "ANTHROPIC_API_KEY": "dummy", "HOME": str(self.root / "home")}
        quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY")
        return {**names, "PATH": os.environ["PATH"], **dict.fromkeys(quiet, "1"), "CLAUDE_CODE_MAX_RETRIES": "0"}

    def session(self, session_id: str, cwd: str = "work") -> Path:
        slug = re.sub("[^A-Za-z0-9]", "-", str((self.root / cwd).resolve()))
        return self.root / "home" / ".claude" / "projects" / slug / f"{session_id}.jsonl"

    def shown(self) -> list[tuple[str, str]]:
        return self.api.main_requests[-1].shown_texts()

    def fail_with(self, **fault: object) -> dict[str, str]:
        script = self.root / "script.json"
        script.write_text(json.dumps({"faults": [fault]}))
        return {"CLEW_SCRIPT": str(script)}


def prompt_line(text: str, line_uuid: str | None = None) -> Line:
    return {"type": "user", "message": {"role": "user", "content": text}, "uuid": line_uuid or str(uuid.uuid4())}


def send(process: subprocess.Popen[bytes], *lines: Line) -> None:
    assert process.stdin
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    # Without a buffer: what an agent that has already ended did not take is not written again at the close.
    with contextlib.suppress(BrokenPipeError):
        os.write(process.stdin.fileno(), content)


def reply(question: Line, response: Mapping[str, Any]) -> Line:
    if response.get("behavior") == "allow":
        response = {"updatedInput": question["request"]["input"], **response}
    answered = {"subtype": "success", "request_id": question["request_id"], "response": response}
    return {"type": "control_response", "response": answered}


ALLOW = {"behavior": "allow"}
DENY = {"behavior": "deny", "message": "No person is here."}
INTERRUPT = {"type": "control_request", "request_id": "stop", "request": {"subtype": "interrupt"}}


def chain(path: Path) -> list[tuple[str, str]]:
    """The active chain of a session file, as (type, content), without the CLI's attachments."""
    entries = [json.loads(text) for text in path.read_text().splitlines()]
    by_uuid = {entry["uuid"]: entry for entry in entries if "uuid" in entry}
    at, way = [entry["uuid"] for entry in entries if "uuid" in entry][-1], []
    while at:
        entry = by_uuid[at]
        if "message" in entry:
            content = entry["message"]["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            way += [(entry["type"], block.get("text") or block["type"]) for block in reversed(blocks)]
        at = entry["parentUuid"]
    return way[::-1]


@pytest.fixture
def api() -> Iterator[ModelApi]:
    with ModelApi() as api:
        yield api


@pytest.fixture
def bench(tmp_path: Path, api: ModelApi) -> Bench:
    (tmp_path / "home").mkdir()
    return Bench(install(tmp_path / "bin"), tmp_path, api)


# --- on its own


@pytest.mark.process
def test_version_and_help_answer_the_probes(tmp_path: Path) -> None:
    plain = install(tmp_path)
    other = install(tmp_path, "openclaude", product="OpenClaude", version="0.9.1", resume=False)
    ask = lambda binary, flag: subprocess.run([binary, flag], capture_output=True, text=True, check=True).stdout  # noqa: E731
    assert ask(plain, "--version") == "2.1.325 (Claude Code)\n"
    assert ask(other, "--version") == "0.9.1 (OpenClaude)\n"
    assert "--resume" in ask(plain, "--help")
    assert "--permission-prompt-tool" not in ask(plain, "--help")  # the real CLI hides it too
    assert "--resume" not in ask(other, "--help")


def test_a_resumed_turn_shows_the_model_each_turn_once_and_extends_the_cached_prefix(bench: Bench) -> None:
    sid = str(uuid.uuid4())
    first = bench.run("one", args=("--session-id", sid))
    second = bench.run("two", "three", args=(f"--resume={sid}",))
    assert (first.rc, second.rc) == (0, 0)
    assert bench.shown() == [
        *(("user", "one"), ("assistant", "ack: one"), ("user", "two"), ("assistant", "ack: two"), ("user", "three")),
    ]
    before, after = bench.api.main_requests[-2:]
    assert after.cache.read_tokens >= before.cache.read_tokens + before.cache.write_5m_tokens > 1000
    assert second.result["total_cost_usd"] > first.result["total_cost_usd"]
    assert second.result["model_usage_since_last_result"] != second.result["modelUsage"]
    assert bench.session(sid).stat().st_mode & 0o777 == 0o600


def test_tools_ask_run_and_are_refused(bench: Bench) -> None:
    command = '!tool Bash {"command": "echo made > made.txt; exit 3"}'
    allowed = bench.run(command, answer=ALLOW)
    assert (bench.root / "work" / "made.txt").read_text() == "made\n"
    [told] = [line for line in allowed.lines if line["type"] == "user"]
    assert told["message"]["content"][0]["content"].startswith("Exit code 3")
    assert allowed.result["num_turns"] == 2

    target = bench.root / "work" / "w.txt"
    write = f'!tool Write {{"file_path": "{target}", "content": "x"}}'
    denied = bench.run(write, answer=DENY)
    assert not target.exists()
    assert [denial["tool_name"] for denial in denied.result["permission_denials"]] == ["Write"]
    accepted = bench.run(write, args=("--permission-mode", "acceptEdits"))
    assert target.read_text() == "x" and "control_request" not in accepted.kinds
    missing = bench.run(write, args=("--tools", "Read,Grep"))
    [told] = [line for line in missing.lines if line["type"] == "user"]
    assert "No such tool available: Write" in told["message"]["content"][0]["content"]


def test_parallel_calls_all_keep_their_results(bench: Bench) -> None:
    sid = str(uuid.uuid4())
    both = '!tool Bash {"command": "echo left"}\n!tool Bash {"command": "echo right"}'
    assert bench.run(both, args=("--session-id", sid)).result["num_turns"] == 3
    bench.run("next", args=(f"--resume={sid}",))
    messages = bench.api.main_requests[-1].messages
    asked = [block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use"]
    told = [block["tool_use_id"] for message in messages for block in message["content"] if "tool_use_id" in block]
    assert len(asked) == 2 and asked == told


def test_a_repeated_prompt_is_dropped_without_a_turn(bench: Bench) -> None:
    sid, line = str(uuid.uuid4()), prompt_line("once")
    bench.run(line, args=("--session-id", sid))
    asked = len(bench.api.main_requests)
    process = subprocess.run(
        [bench.binary, *FLAGS, f"--resume={sid}"],
        input=json.dumps(line).encode() + b"\n",
        capture_output=True,
        cwd=bench.root / "work",
        env=bench.base_env(),
        check=True,
    )
    [only] = process.stdout.splitlines()
    assert json.loads(only)["state"] == "completed"
    assert len(bench.api.main_requests) == asked


def test_an_interrupt_keeps_the_partial_text(bench: Bench) -> None:
    sid = str(uuid.uuid4())

    def stop(line: Line, process: subprocess.Popen[bytes]) -> None:
        if line["type"] == "stream_event" and line["event"]["type"] == "content_block_delta":
            send(process, INTERRUPT)

    stopped = bench.run("!slow 500 0.02", args=("--session-id", sid), on=stop)
    assert stopped.rc == 1
    assert stopped.result["terminal_reason"] == "aborted_streaming"
    assert stopped.kinds.count("control_response") >= 1
    bench.run("go on", args=(f"--resume={sid}",))
    roles = [role for role, _ in bench.shown()]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert bench.shown()[2:4] == [("user", "[Request interrupted by user]"), ("assistant", "No response requested.")]


def test_an_interrupt_kills_the_running_command(bench: Bench) -> None:
    def stop(line: Line, process: subprocess.Popen[bytes]) -> None:
        if line["type"] == "stream_event" and line["event"]["type"] == "message_stop":
            send(process, INTERRUPT)

    stopped = bench.run('!tool Bash {"command": "sleep 60"}', on=stop)
    assert stopped.result["terminal_reason"] == "aborted_tools"


@pytest.mark.parametrize(("kill", "rc"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)])
def test_a_killed_prompt_stays_in_the_session(bench: Bench, kill: signal.Signals, rc: int) -> None:
    sid = str(uuid.uuid4())

    def die(line: Line, process: subprocess.Popen[bytes]) -> None:
        if line["type"] == "control_request":
            process.send_signal(kill)

    assert bench.run('!tool Bash {"command": "touch x"}', args=("--session-id", sid), on=die).rc == rc
    bench.run("again", args=(f"--resume={sid}",))
    assert [text for role, text in bench.shown() if role == "user"][-1] == "again"
    assert ("assistant", "No response requested.") in bench.shown()


@pytest.mark.parametrize(
    ("directive", "status", "error_type"),
    [
        ("!fail 400 invalid_request_error bad", 400, "invalid_request_error"),
        ("!fail 401 authentication_error no", 401, "authentication_error"),
        ("!fail 429 rate_limit_error slow", 429, "rate_limit_error"),
        ("!fail 529 overloaded_error busy", 529, "overloaded_error"),
        ("!toolong", 400, "invalid_request_error"),
    ],
)
def test_an_api_error_is_an_error_result_and_the_prompt_stays(
    bench: Bench, directive: str, status: int, error_type: str
) -> None:
    sid = str(uuid.uuid4())
    failed = bench.run(directive, args=("--session-id", sid))
    assert failed.rc == 1
    assert failed.result["subtype"] == "success" and failed.result["is_error"]
    assert (failed.result["api_error_status"], failed.result["api_error_type"]) == (status, error_type)
    assert failed.kinds[-1] == "command_lifecycle/cancelled"
    bench.run("and now?", args=(f"--resume={sid}",))
    assert bench.shown() == [("user", directive), ("user", "and now?")]


def test_a_cut_stream_and_a_dead_gateway_are_network_errors(bench: Bench) -> None:
    assert bench.run("!cut some words").result["api_error"] == "connection_failed"
    refused = bench.run("hello", env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})
    assert "ECONNREFUSED" in refused.result["result"]


def test_the_valid_lines_of_a_damaged_file_are_read(bench: Bench) -> None:
    sid = str(uuid.uuid4())
    bench.run("one", "two", args=("--session-id", sid))
    path = bench.session(sid)
    path.write_bytes(path.read_bytes()[:-30])
    bench.run("three", args=(f"--resume={sid}",))
    assert len(bench.shown()) == 5
    path.write_text("garbage\n")
    assert "No conversation found" in bench.run("four", args=(f"--resume={sid}",)).stderr


def test_rewind_and_fork_do_not_change_the_original(bench: Bench) -> None:
    sid, branch = str(uuid.uuid4()), str(uuid.uuid4())
    first = bench.run("one", args=("--session-id", sid))
    bench.run("two", args=(f"--resume={sid}",))
    before = bench.session(sid).read_bytes()
    [answer] = [line["uuid"] for line in first.lines if line["type"] == "assistant"]
    at = (f"--resume={sid}", "--fork-session", "--session-id", branch, f"--resume-session-at={answer}")
    bench.run("other two", args=at)
    assert bench.shown() == [("user", "one"), ("assistant", "ack: one"), ("user", "other two")]
    assert bench.session(sid).read_bytes() == before
    assert chain(bench.session(branch))[0] == ("user", "one")


def test_the_log_has_flags_and_prompt_also_for_a_rejected_resume(bench: Bench) -> None:
    log, gone = bench.root / "log", str(uuid.uuid4())
    bench.run("lost?", args=(f"--resume={gone}",), env={"CLEW_SCRIPT_LOG": str(log)})
    [line] = [json.loads(text) for text in log.read_text().splitlines()]
    assert f"--resume={gone}" in line["argv"] and line["prompts"] == ["lost?"]


def test_a_turn_imports_few_modules(bench: Bench) -> None:
    """So it starts quickly: json, signal, socket or pathlib would double the time."""
    told = bench.root / "told"
    told.write_text(f'#!/bin/sh\nexec {sys.executable} -X importtime -SEs {bench.binary} "$@"\n')
    told.chmod(0o755)
    bare = subprocess.run(
        [sys.executable, "-X", "importtime", "-SEs", "-c", ""], capture_output=True, text=True, check=True
    )
    done = replace(bench, binary=told).run("hello")
    assert done.result["subtype"] == "success"
    more = imported(done.stderr) - imported(bare.stderr)
    assert not more & {"json", "pathlib", "re", "signal", "socket", "subprocess", "typing"}
    assert len(more) <= 15, more


def imported(stderr: str) -> set[str]:
    """The modules that `-X importtime` lists."""
    return {line.rpartition("|")[2].strip() for line in stderr.splitlines() if line.startswith("import time:")}


def test_a_compaction_replaces_all_but_the_last_answer_by_a_summary(bench: Bench) -> None:
    sid = str(uuid.uuid4())
    bench.run("one", "two", args=("--session-id", sid))
    compacted = bench.run("/compact", args=(f"--resume={sid}",))
    assert "system/compact_boundary" in compacted.kinds and not compacted.result["is_error"]
    bench.run("three", args=(f"--resume={sid}",))
    [summary, kept, *command, prompt] = bench.shown()
    assert "scripted summary" in summary[1] and kept == ("assistant", "ack: two") and prompt == ("user", "three")
    assert all("command" in text for _, text in command)


# --- faults


@pytest.mark.parametrize(
    ("fault", "rc", "kinds"),
    [
        ({"do": "reject", "on": "resume"}, 1, ["result/error_during_execution"]),
        ({"do": "lie_success_empty"}, 0, []),
        ({"do": "crash_after_init", "rc": 7}, 7, ["system/init"]),
        ({"do": "crash_mid_text", "signal": 9}, -9, ["system/init", "system/status"]),
        ({"do": "no_result"}, 0, ["system/init", "system/status", "assistant"]),
    ],
)
def test_faults_end_the_process_at_the_named_point(bench: Bench, fault: Line, rc: int, kinds: list[str]) -> None:
    sid = str(uuid.uuid4())
    bench.run("one", args=("--session-id", sid))
    done = bench.run("two", args=(f"--resume={sid}",), env=bench.fail_with(**fault))
    assert done.rc == rc
    assert [kind for kind in done.kinds if "lifecycle" not in kind] == kinds


def test_a_fault_happens_at_its_turn_and_once(bench: Bench) -> None:
    sid = str(uuid.uuid4())
    script = bench.fail_with(do="error_result", text="API Error: strange", turn=2, once=str(bench.root / "used"))
    args = ("--session-id", sid)
    outcomes = []
    for prompt in ("one", "two", "three"):
        outcomes.append(bench.run(prompt, args=args, env=script).result["is_error"])
        args = (f"--resume={sid}",)
    assert outcomes == [False, True, False]


def test_noise_and_wrong_reports_do_not_fail_the_turn(bench: Bench) -> None:
    noisy = bench.run("one", env=bench.fail_with(do="garbage_line"))
    assert b"NaN" in noisy.raw and b"\\ud800" in noisy.raw and not noisy.result["is_error"]
    flooded = bench.run("one", env=bench.fail_with(do="flood", n_bytes=2_000_000, stderr_lines=5000))
    assert max(map(len, flooded.raw.splitlines())) > 2_000_000 and len(flooded.stderr) > 400_000
    lying = bench.run("one", env=bench.fail_with(do="lie_session_id"))
    [init] = [line for line in lying.lines if line.get("subtype") == "init"]
    assert init["session_id"] != lying.result["session_id"]


def test_an_unsaved_turn_succeeds_and_is_not_in_the_file(bench: Bench) -> None:
    sid = str(uuid.uuid4())
    bench.run("one", args=("--session-id", sid))
    bench.run("two", args=(f"--resume={sid}",), env=bench.fail_with(do="unsaved"))
    bench.run("three", args=(f"--resume={sid}",))
    assert bench.shown() == [("user", "one"), ("assistant", "ack: one"), ("user", "three")]


@pytest.mark.parametrize("point", ["hang_before_init", "hang_after_init", "hang_after_result"])
def test_a_hanging_process_ends_only_by_a_signal(bench: Bench, point: str) -> None:
    process = subprocess.Popen(
        [bench.binary, *FLAGS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=bench.root,
        env={**bench.base_env(), **bench.fail_with(do=point)},
    )
    send(process, prompt_line("one"))
    assert process.stdin and process.stdout
    process.stdin.close()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.terminate()
    assert process.wait(60) == 143
    process.stdout.close()


# --- side by side


def real_cli() -> Path:
    [found] = [Path(entry) / "claude_agent_sdk" / "_bundled" / "claude" for entry in sys.path if "site-" in entry][:1]
    return found


@dataclass(frozen=True)
class Story:
    """The same script on one of the two binaries, and what it prints to its host."""

    turns: dict[str, Done]
    chain: list[tuple[str, str]]
    shown: list[tuple[str, str]]


def tell(bench: Bench) -> Story:
    sid, gone = "00000000-0000-4000-8000-0000000000aa", "00000000-0000-4000-8000-0000000000bb"
    resume = (f"--resume={sid}",)
    turns = {
        "fresh": bench.run("one", args=("--session-id", sid)),
        "in use": bench.run("x", args=("--session-id", sid)),
        "resumed": bench.run("two", args=resume),
        "allowed": bench.run('!tool Bash {"command": "touch made.txt"}', args=resume, answer=ALLOW),
        "denied": bench.run('!tool Bash {"command": "touch never.txt"}', args=resume, answer=DENY),
        "unasked": bench.run('!tool Bash {"command": "echo hi"}', args=resume),
        "no such tool": bench.run('!tool Blah {"x": 1}', args=resume),
        "failed": bench.run("!fail 429 rate_limit_error slow", args=resume),
        "after": bench.run("three", args=resume),
        "rejected": bench.run("x", args=(f"--resume={gone}",)),
        "not an id": bench.run("x", args=("--resume=nonsense",)),
    }
    return Story(turns, chain(bench.session(sid)), [])


@pytest.mark.real
def test_the_scripted_agent_behaves_like_the_real_one(tmp_path: Path, api: ModelApi) -> None:
    stories = []
    for name in ("scripted", "real"):
        root = tmp_path / name
        (root / "home").mkdir(parents=True)
        binary = install(root / "bin") if name == "scripted" else real_cli()
        assert binary.exists()
        bench = Bench(binary, root, api)
        story = tell(bench)
        after = [request for request in api.main_requests if ("user", "three") in request.shown_texts()]
        stories.append(Story(story.turns, story.chain, after[-1].shown_texts()))
    scripted, real = stories
    for title, theirs in real.turns.items():
        ours = scripted.turns[title]
        assert (ours.rc, ours.kinds, ours.events) == (theirs.rc, theirs.kinds, theirs.events), title
        assert without_ids(ours.stderr) == without_ids(theirs.stderr), title
        if theirs.lines:
            same_result(ours.result, theirs.result, title)
            same_keys(ours, theirs, title)
    assert scripted.chain == real.chain
    assert scripted.shown == real.shown


@dataclass(frozen=True)
class Rewritten:
    """What sessions look like that were rewound and compacted: the lines, the files, and what the model is shown."""

    turns: dict[str, Done]
    files: list[list[Line]]
    shown: list[list[tuple[str, str]]]


class Sessions:
    """Sessions on one of the two binaries, with a process for each turn."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.before = bench, len(bench.api.requests)
        self.turns: dict[str, Done] = {}
        self.ids: list[str] = []

    def new(self, title: str, prompt: str) -> str:
        self.ids.append(f"00000000-0000-4000-8000-0000000000c{len(self.ids)}")
        self.turns[title] = self.bench.run(prompt, args=("--session-id", self.ids[-1]))
        return self.ids[-1]

    def resume(self, sid: str, title: str, prompt: str, *flags: str, **options: Any) -> None:
        self.turns[title] = self.bench.run(prompt, args=(f"--resume={sid}", *flags), **options)

    def copy(self, sid: str, title: str, prompt: str, *flags: str) -> str:
        self.ids.append(f"00000000-0000-4000-8000-0000000000c{len(self.ids)}")
        self.resume(sid, title, prompt, "--fork-session", "--session-id", self.ids[-1], *flags)
        return self.ids[-1]

    def answers(self, sid: str) -> list[str]:
        return [line["uuid"] for line in entries(self.bench.session(sid)) if line["type"] == "assistant"]

    def told(self) -> Rewritten:
        paths = [path for path in map(self.bench.session, self.ids) if path.exists()]
        requests = self.bench.api.requests[self.before :]
        shown = [request.shown_texts(tools=True) for request in requests if request.is_main]
        return Rewritten(self.turns, [entries(path) for path in paths], shown)


def rewound_and_compacted(bench: Bench) -> Rewritten:
    """Parallel calls, a rewind in place, and compactions."""
    sessions = Sessions(bench)
    # Commands that write run one after the other. Others run at once, and their results come in any order.
    calls = "\n".join(f'!tool Bash {{"command": "touch {name}"}}' for name in ("left", "middle", "right"))
    sid = sessions.new("fresh", "one")
    sessions.new("too early", "/compact")
    sessions.resume(sid, "parallel", calls, "--permission-mode", "acceptEdits")
    [first, *_, last] = sessions.answers(sid)
    sessions.resume(sid, "rewound", "another two", "--resume-session-at", first)
    sessions.resume(sid, "off the chain", "x", "--resume-session-at", last)
    sessions.resume(sid, "compacted", "/compact")
    sessions.resume(sid, "after", "three")
    sessions.resume(sid, "before the boundary", "x", "--resume-session-at", first)
    bench.api.reply = lambda request: Fail(400, "api_error", "no", FINAL) if request.is_compaction else None
    sessions.resume(sid, "not compacted", "/compact")
    bench.api.reply = None
    sessions.resume(sid, "compacted again", "/compact keep the names")
    sessions.resume(sid, "at the end", "four")
    return sessions.told()


def compacted_and_copied(bench: Bench) -> Rewritten:
    """Compactions of short conversations and of interrupted ones, and copies of what they left."""
    sessions = Sessions(bench)
    sid = sessions.new("fresh", "one")
    sessions.resume(sid, "all of it", "/compact")
    sessions.resume(sid, "not enough", "/compact")
    sessions.resume(sid, "two", "two")
    sessions.resume(sid, "stopped", "!slow 30 0.03", on=interrupt_at_first_text)
    sessions.resume(sid, "after the stop", "/compact")
    sessions.resume(sid, "three", "three")
    sessions.resume(sid, "with an answer kept", "/compact")
    kept = sessions.answers(sid)[-1]
    copied = sessions.copy(sid, "copied", "four")
    sessions.copy(sid, "cut at the kept answer", "five", "--resume-session-at", kept)
    sessions.resume(copied, "the copy compacted", "/compact")
    sessions.resume(copied, "at the end", "six")
    refused = sessions.new("refused", "x\n!fail 429 rate_limit_error slow")
    sessions.resume(refused, "nothing but a refusal", "/compact")
    sessions.resume(refused, "after the refusal", "y")
    return sessions.told()


def interrupt_at_first_text(line: Line, process: subprocess.Popen[bytes]) -> None:
    delta = line["event"] if line["type"] == "stream_event" else {}
    if delta.get("type") == "content_block_delta" and delta["delta"]["text"].startswith("w0"):
        send(process, INTERRUPT)


@pytest.mark.real
@pytest.mark.parametrize("story", [rewound_and_compacted, compacted_and_copied])
def test_a_rewritten_session_looks_like_the_real_one(
    tmp_path: Path, api: ModelApi, story: Callable[[Bench], Rewritten]
) -> None:
    told = []
    for name in ("scripted", "real"):
        (tmp_path / name / "home").mkdir(parents=True)
        binary = install(tmp_path / name / "bin") if name == "scripted" else real_cli()
        told.append(story(Bench(binary, tmp_path / name, api)))
    ours, theirs = told
    for title, real in theirs.turns.items():
        mine, real_kinds = ours.turns[title].kinds, real.kinds
        if title == "parallel":  # the first call may run before the line of the last one
            mine, real_kinds = sorted(mine), sorted(real_kinds)
        assert (ours.turns[title].rc, mine) == (real.rc, real_kinds), title
        same_result(ours.turns[title].result, real.result, title)
        same_keys(ours.turns[title], real, title)
    assert [shapes(lines) for lines in ours.files] == [shapes(lines) for lines in theirs.files]
    assert without_places(ours, tmp_path / "scripted") == without_places(theirs, tmp_path / "real")


def without_places(told: Rewritten, root: Path) -> list[list[tuple[str, str]]]:
    slug = str(root).replace("/", "-").replace("_", "-")
    return [[(role, text.replace(str(root), "").replace(slug, "")) for role, text in each] for each in told.shown]


def entries(path: Path) -> list[Line]:
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    return [line for line in lines if "uuid" in line]


def shapes(lines: list[Line]) -> list[tuple[object, ...]]:
    """The messages of a file and what each refers to, by position; without attachments."""
    by_uuid = {line["uuid"]: line for line in lines}
    places = {line["uuid"]: place for place, line in enumerate(each for each in lines if each["type"] != "attachment")}

    def place(uuid: str | None) -> int | None:
        while uuid is not None and uuid not in places:
            if uuid not in by_uuid:
                return -1  # it was not copied
            uuid = by_uuid[uuid]["parentUuid"]
        return None if uuid is None else places[uuid]

    found: list[tuple[object, ...]] = []
    for line in lines:
        if line["type"] == "attachment":
            continue
        flags = [
            key for key in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "promptSource") if line.get(key)
        ]
        kept = line.get("compactMetadata", {}).get("preservedMessages", {"uuids": []})
        refers = [place(line.get(key)) for key in ("parentUuid", "logicalParentUuid", "sourceToolAssistantUUID")]
        said = line.get("message", {}).get("content", line.get("content"))
        what = said[:40] if isinstance(said, str) else [block.get("text") or block["type"] for block in said]
        turn = line.get("turnPosition", {}).get("turnIndex")
        preserved = sorted({place(uuid) for uuid in kept["uuids"]}, key=str), place(kept.get("anchorUuid"))
        found.append((line["type"], line.get("subtype"), what, flags, refers, preserved, turn))
    return found


def same_result(ours: Line, theirs: Line, title: str) -> None:
    exact = ("subtype", "is_error", "num_turns", "stop_reason", "terminal_reason", "result", "errors")
    exact += ("api_error_status", "api_error_type", "result_index", "queued_turn_count")
    for key in exact:
        mine, real = (without_ids(repr((key in line, line.get(key)))) for line in (ours, theirs))
        assert mine == real, (title, key)
    assert {key for key in RESULT_KEYS if key in theirs} <= set(ours), title
    assert set(ours) <= set(theirs), title
    for book in ("modelUsage", "model_usage_since_last_result"):
        assert list(ours.get(book, {})) == list(theirs.get(book, {})), (title, book)


def same_keys(ours: Done, theirs: Done, title: str) -> None:
    """No line of ours has a key that the real line lacks. The lines that a host reads have all keys that matter."""
    for kind in {line["type"] for line in theirs.lines} - {"result"}:
        mine = [line for line in ours.lines if line["type"] == kind]
        real = [line for line in theirs.lines if line["type"] == kind]
        assert set().union(*mine) <= set().union(*real), (title, kind)
    for line in ours.lines:
        assert "session_id" in line or line["type"].startswith("control_"), title


def without_ids(text: str) -> str:
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)
