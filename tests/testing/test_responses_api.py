"""The Responses API of the scripted model: over a plain connection, then with the real Codex CLI."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.model.scripts import Fail, Hang, Request, Text, TooLong, ToolUse
from clew.testing.stage import CODEX_MODEL, AgentLaunch, Stage, real_codex


@pytest.fixture
def api() -> Iterator[ModelApi]:
    with ModelApi(minimum_cached_tokens=0) as running:
        yield running


class Client:
    """One connection to the API, speaking plain HTTP."""

    def __init__(self, api: ModelApi) -> None:
        self.connection = http.client.HTTPConnection(api.url.removeprefix("http://"), timeout=60)

    def send(self, items: list[Any] | str, headers: dict[str, str] | None = None, *, stream: bool = True) -> None:
        body = {"model": "m", "input": items, "stream": stream}
        self.connection.request("POST", "/v1/responses", json.dumps(body), headers or {})

    def events(self) -> Iterator[dict[str, Any]]:
        response = self.connection.getresponse()
        assert response.headers["content-type"] == "text/event-stream"
        for line in response:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))

    def ask(self, items: list[Any] | str) -> list[dict[str, Any]]:
        self.send(items)
        return list(self.events())


@pytest.fixture
def client(api: ModelApi) -> Iterator[Client]:
    made = Client(api)
    yield made
    made.connection.close()


def message(role: str, *texts: str, item_id: str = "") -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text} for text in texts]
    return {"type": "message", "role": role, "id": item_id, "content": content}


def items_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


class TestReplies:
    def test_text_is_sent_in_pieces_and_then_as_a_whole(self, client: Client) -> None:
        events = client.ask("!slow 3 0.001")
        kinds = [event["type"] for event in events]
        assert kinds[:2] == ["response.created", "response.output_item.added"]
        assert kinds[-2:] == ["response.output_item.done", "response.completed"]
        assert [event["delta"] for event in events if "delta" in event] == ["w0 ", "w1 ", "w2"]
        assert items_of(events)[0]["content"][0]["text"] == "w0 w1 w2"

    def test_tools_are_called_in_json_or_in_plain_text(self, client: Client) -> None:
        events = client.ask('!tool exec_command {"cmd": "ls"}\n!tool apply_patch {"input": "*** Begin Patch"}')
        command, patch = items_of(events)
        assert (command["type"], json.loads(command["arguments"])) == ("function_call", {"cmd": "ls"})
        assert (patch["type"], patch["input"]) == ("custom_tool_call", "*** Begin Patch")
        assert command["call_id"] != patch["call_id"]

    def test_a_tool_of_a_namespace_is_called_by_both_names(self, client: Client) -> None:
        [call] = items_of(client.ask("!tool agents.spawn {}"))
        assert (call["type"], call["namespace"], call["name"]) == ("function_call", "agents", "spawn")

    def test_result_of_a_tool_is_acknowledged(self, client: Client) -> None:
        call = {"type": "function_call", "call_id": "c", "name": "exec_command", "arguments": "{}"}
        result = {"type": "function_call_output", "call_id": "c", "output": "seen"}
        [item] = items_of(client.ask([message("user", "!tool exec_command {}"), call, result]))
        assert item["content"][0]["text"] == "done: seen"

    def test_refusal_has_this_apis_shape(self, api: ModelApi, client: Client) -> None:
        api.script.append(Fail(429, "rate_limit_exceeded", "slow down"))
        client.send("hi")
        response = client.connection.getresponse()
        error = {"type": "rate_limit_exceeded", "code": "rate_limit_exceeded", "message": "slow down"}
        assert (response.status, json.loads(response.read())) == (429, {"error": error})

    def test_a_full_context_is_reported_after_the_stream_has_begun(self, api: ModelApi, client: Client) -> None:
        api.script.append(TooLong())
        *_, last = client.ask("hi")
        assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "context_length_exceeded")
        assert api.requests[0].cache.prompt_tokens == 0, "what is refused is not charged"

    def test_a_cut_answer_breaks_off(self, client: Client) -> None:
        *_, last = client.ask("!cut half")
        assert (last["type"], last["delta"]) == ("response.output_text.delta", "half")

    @pytest.mark.parametrize("where", ["request", "headers", "start", "text"])
    def test_a_hanging_answer_continues_when_released(self, api: ModelApi, client: Client, where: str) -> None:
        api.script.append(Hang(where, "late"))  # type: ignore[arg-type]
        client.send("hi")
        api.wait_for_hanging(1)
        assert api.release() == 1
        assert items_of(list(client.events()))[0]["content"][0]["text"] == "late"

    def test_answer_in_one_piece(self, api: ModelApi, client: Client) -> None:
        api.script.append(ToolUse("exec_command", {"cmd": "ls"}, text="first"))
        client.send("hi", stream=False)
        answer = json.loads(client.connection.getresponse().read())
        assert (answer["status"], len(answer["output"])) == ("completed", 2)


class TestRequests:
    def test_shown_texts_are_those_of_people_and_the_model(self, api: ModelApi, client: Client) -> None:
        client.ask(
            [
                message("developer", "You are Codex"),
                message("user", "# AGENTS.md instructions for /w", "<environment_context>…"),
                message("user", "one"),
                {"type": "reasoning", "summary": []},
                message("assistant", "answer"),
                message("user", "<turn_aborted>…"),
                message("user", "two"),
            ]
        )
        [request] = api.main_requests
        assert request.shown_texts() == [("user", "one"), ("assistant", "answer"), ("user", "two")]

    def test_compaction_is_not_a_turn(self, api: ModelApi, client: Client) -> None:
        api.script.append(Text("of the conversation"))
        client.send("summarise", {"x-codex-turn-metadata": '{"request_kind": "compaction"}'})
        assert "summary" in items_of(list(client.events()))[0]["content"][0]["text"]
        assert (len(api.requests), api.main_requests, len(api.script)) == (1, [], 1)

    def test_a_title_that_the_tui_asks_for_is_not_a_turn(self, api: ModelApi, client: Client) -> None:
        metadata = '{"request_kind": "turn", "thread_source": "thread_title"}'
        client.send("hello", {"x-codex-turn-metadata": metadata})
        list(client.events())
        assert (len(api.requests), api.main_requests) == (1, [])

    def test_a_prefix_is_read_from_the_cache_whatever_its_ids(self, api: ModelApi, client: Client) -> None:
        def usage(events: list[dict[str, Any]]) -> tuple[int, int]:
            found = events[-1]["response"]["usage"]
            return found["input_tokens"], found["input_tokens_details"]["cached_tokens"]

        whole, read = usage(client.ask([message("user", "one " * 50, item_id="a")]))
        assert (read, whole > 40) == (0, True)
        longer = [message("user", "one " * 50, item_id="b"), message("assistant", "x"), message("user", "two")]
        total, read = usage(client.ask(longer))
        assert read == whole
        assert total > whole
        api.clock.advance(600)
        assert usage(client.ask(longer)) == (total, 0)

    def test_a_client_that_uses_it_as_a_proxy_is_recorded_and_refused(self, api: ModelApi) -> None:
        connection = http.client.HTTPConnection(api.url.removeprefix("http://"), timeout=60)
        connection.set_tunnel("example.org", 443)
        with pytest.raises(OSError, match="403"):
            connection.request("GET", "/")
        assert api.refused_hosts == ["example.org:443"]


class TestRealCodex:
    @pytest.fixture
    def stage(self, tmp_path: Path, api: ModelApi) -> Stage:
        return Stage(tmp_path, api, scripted_agent.install(tmp_path / "agent"), codex=real_codex())

    def run(self, stage: Stage, prompt: str, *words: str, **environ: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [str(stage.codex), "exec", *words, "-"],
            input=prompt.encode(),
            env={**stage.environ, **environ},
            cwd=stage.work,
            check=True,
            capture_output=True,
            timeout=60,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    @pytest.mark.real
    def test_two_turns_and_nothing_leaves_the_machine(self, stage: Stage) -> None:
        proxy = {"HTTPS_PROXY": stage.api.url, "HTTP_PROXY": stage.api.url, "NO_PROXY": "127.0.0.1"}
        started, *_ = self.run(stage, "!say one", "--json", "--skip-git-repo-check", **proxy)
        session = started["thread_id"]
        self.run(stage, "and now?", "resume", "--json", "--skip-git-repo-check", session, **proxy)
        assert stage.shown == [("user", "!say one"), ("assistant", "one"), ("user", "and now?")]
        first, second = stage.api.main_requests
        assert second.cache.read_tokens == first.cache.prompt_tokens
        assert {request.model for request in stage.api.requests} == {CODEX_MODEL}
        assert stage.api.refused_hosts == []
        assert [(launch.agent, launch.resumes) for launch in stage.launches] == [("codex", None), ("codex", session)]
        assert [session in path.name for path in stage.codex_files()] == [True]

    @pytest.mark.real
    def test_the_proxy_records_connections_to_the_vendor(self, stage: Stage) -> None:
        """With the features that the stage switches off, the CLI connects to the vendor: so the test above can fail."""
        settings = stage.home / ".codex" / "config.toml"
        settings.write_text(settings.read_text().replace("analytics.enabled = false", ""))
        proxy = {"HTTPS_PROXY": stage.api.url, "NO_PROXY": "127.0.0.1"}
        self.run(stage, "!say one", "--json", "--skip-git-repo-check", **proxy)
        assert stage.api.refused_hosts

    def test_launches_of_the_two_agents_are_distinguished(self) -> None:
        assert AgentLaunch(("-p", "--resume=x")).resumes == "x"
        assert AgentLaunch(("exec", "resume", "--json", "y", "-"), "codex").resumes == "y"
        assert AgentLaunch(("exec", "--json", "-"), "codex").resumes is None
        assert [
            AgentLaunch(argv).is_turn for argv in (("--version",), ("exec", "--help"), ("exec", "--json", "-"))
        ] == [
            False,
            False,
            True,
        ]


def test_both_apis_share_script_and_record(api: ModelApi, client: Client) -> None:
    seen: list[str] = []

    def hook(request: Request) -> None:
        seen.append(request.route)

    api.reply = hook
    client.ask("hi")
    client.connection.request("POST", "/v1/messages", json.dumps({"messages": [{"role": "user", "content": "hi"}]}))
    client.connection.getresponse().read()
    assert seen == ["/v1/responses", "/v1/messages"]
    assert [request.shown_texts() for request in api.main_requests] == [[("user", "hi")]] * 2
