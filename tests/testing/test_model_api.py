"""The scripted model API: every kind of reply over a plain connection, then two turns with the real Claude CLI."""

from __future__ import annotations

import http.client
import json
import os
import stat
import subprocess
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest

from clew.testing.model.api import ModelApi
from clew.testing.model.prompt_cache import CacheAccount
from clew.testing.model.scripts import Cut, Fail, Hang, Reply, Request, Slow, Text, TooLong, ToolUse, read_directive


@pytest.fixture
def api() -> Iterator[ModelApi]:
    with ModelApi(minimum_cached_tokens=0) as running:
        yield running


class Client:
    """One connection to the API, speaking plain HTTP."""

    def __init__(self, api: ModelApi) -> None:
        host, port = api.url.removeprefix("http://").split(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=60)

    def send(self, messages: list[Any], path: str = "/v1/messages", **more: Any) -> None:
        body = {"model": "m", "max_tokens": 100, "messages": messages, **more}
        self.connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})

    def receive(self) -> tuple[int, Any]:
        response = self.connection.getresponse()
        return response.status, json.loads(response.read())

    def ask(self, prompt: str = "hi", **more: Any) -> Any:
        self.send([user(prompt)], **more)
        return self.receive()[1]

    def stream(self, prompt: str = "hi") -> list[dict[str, Any]]:
        self.send([user(prompt)], path="/v1/messages?beta=true", stream=True)
        return list(self.events())

    def events(self) -> Iterator[dict[str, Any]]:
        response = self.connection.getresponse()
        assert response.headers["content-type"] == "text/event-stream"
        for line in response:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


@pytest.fixture
def client(api: ModelApi) -> Iterator[Client]:
    made = Client(api)
    yield made
    made.connection.close()


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def said(message: Mapping[str, Any]) -> str:
    return "".join(block.get("text", "") for block in message["content"])


def streamed_text(events: list[dict[str, Any]]) -> list[str]:
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return [delta["text"] for delta in deltas if delta["type"] == "text_delta"]


class TestReplies:
    def test_text_in_one_piece(self, api: ModelApi, client: Client) -> None:
        api.script.append(Text("hello"))
        message = client.ask()
        assert (said(message), message["stop_reason"], message["model"]) == ("hello", "end_turn", "m")

    def test_text_as_a_stream_of_chunks(self, api: ModelApi, client: Client) -> None:
        api.script.append(Text("hello world", chunks=3, delay_s=0.001))
        events = client.stream()
        assert streamed_text(events) == ["hell", "o wo", "rld"]
        kinds = [event["type"] for event in events if event["type"] != "content_block_delta"]
        assert kinds == [
            "message_start",
            "content_block_start",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
        assert events[-2]["delta"]["stop_reason"] == "end_turn"

    def test_a_slow_reply_arrives_word_by_word(
        self, api: ModelApi, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pauses: list[float] = []
        monkeypatch.setattr(api._closing, "wait", pauses.append)
        api.script.append(Slow("one two three", words_per_s=20))
        assert streamed_text(client.stream()) == ["one ", "two ", "three"]
        assert pauses == [0.05, 0.05]

    def test_tools_in_one_piece(self, api: ModelApi, client: Client) -> None:
        api.script.append(ToolUse("Read", {"path": "a"}, text="let me", also=(ToolUse("Bash", {"command": "ls"}),)))
        message = client.ask()
        assert message["stop_reason"] == "tool_use"
        text, first, second = message["content"]
        assert (text["text"], first["name"], second["input"]) == ("let me", "Read", {"command": "ls"})
        assert first["id"].startswith("toolu_")
        assert first["id"] != second["id"]

    def test_tools_as_a_stream(self, api: ModelApi, client: Client) -> None:
        api.script.append(ToolUse("Read", {"path": "ä"}))
        events = client.stream()
        [start] = [event["content_block"] for event in events if event["type"] == "content_block_start"]
        [delta] = [event["delta"] for event in events if event["type"] == "content_block_delta"]
        assert (start["type"], start["name"], start["input"]) == ("tool_use", "Read", {})
        assert json.loads(delta["partial_json"]) == {"path": "ä"}
        assert events[-2]["delta"]["stop_reason"] == "tool_use"

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 529])
    def test_fail(self, api: ModelApi, client: Client, status: int) -> None:
        api.script.append(Fail(status, "some_error", "no", {"retry-after": "7"}))
        client.send([user("hi")], stream=True)
        response = client.connection.getresponse()
        assert (response.status, response.headers["retry-after"]) == (status, "7")
        assert json.loads(response.read()) == {"type": "error", "error": {"type": "some_error", "message": "no"}}

    def test_too_long(self, api: ModelApi, client: Client) -> None:
        api.script.append(TooLong())
        client.send([user("hi")])
        status, body = client.receive()
        assert (status, body["error"]["type"]) == (400, "invalid_request_error")
        assert body["error"]["message"] == "prompt is too long: 210000 tokens > 200000 maximum"

    def test_cut_drops_the_connection(self, api: ModelApi, client: Client) -> None:
        api.script.append(Cut())
        client.send([user("hi")])
        with pytest.raises(http.client.RemoteDisconnected):
            client.receive()

    def test_the_connection_is_cut_after_the_text(self, api: ModelApi, client: Client) -> None:
        api.script.append(Cut("half an"))
        client.send([user("hi")], stream=True)
        response = client.connection.getresponse()
        seen = b""
        with pytest.raises(http.client.IncompleteRead):
            while True:
                seen += response.read1()
        assert b"half an" in seen
        assert b"message_stop" not in seen


class TestHang:
    @pytest.mark.parametrize("after", ["request", "headers", "start", "text"])
    @pytest.mark.parametrize("stream", [True, False])
    def test_a_hanging_reply_continues_when_released(
        self, api: ModelApi, client: Client, after: Any, stream: bool
    ) -> None:
        api.script.append(Hang(after, "at last"))
        client.send([user("hi")], stream=stream)
        api.wait_for_requests(1)
        assert api.release() == 1
        answer = "".join(streamed_text(list(client.events()))) if stream else said(client.receive()[1])
        assert answer == "at last"
        assert api.release() == 0

    def test_a_hanging_reply_sends_nothing_after_its_text(self, api: ModelApi, client: Client) -> None:
        api.script.append(Hang("text", "so far"))
        client.send([user("hi")], stream=True)
        response = client.connection.getresponse()
        seen = b""
        while b"so far" not in seen:
            seen += response.read1()
        assert client.connection.sock is not None
        client.connection.sock.settimeout(0.1)  # a busy machine cannot make this fail
        with pytest.raises(TimeoutError):
            response.read1()

    def test_a_hanging_reply_ends_when_the_client_disconnects(self, api: ModelApi, client: Client) -> None:
        api.script.append(Hang("start"))
        client.send([user("hi")], stream=True)
        api.wait_for_hanging(1)
        client.connection.close()
        api.wait_for_hanging(0)

    def test_closing_the_api_cuts_a_hanging_reply_off(self) -> None:
        with ModelApi([Hang("headers")]) as api:
            client = Client(api)
            client.send([user("hi")], stream=True)
            response = client.connection.getresponse()
        with pytest.raises(http.client.IncompleteRead):
            response.read()
        client.connection.close()


class TestChoice:
    def test_the_script_comes_first_then_the_hook_then_the_prompt(self, api: ModelApi, client: Client) -> None:
        api.script.append(Text("from the script"))
        api.reply = lambda request: Text("from the hook") if len(api.requests) < 2 else None
        assert [said(client.ask("!say from the prompt")) for _ in range(3)] == [
            "from the script",
            "from the hook",
            "from the prompt",
        ]

    def test_the_default_reply_replaces_only_the_echo(self, api: ModelApi, client: Client) -> None:
        api.default = Text("whatever")
        assert said(client.ask("hi")) == "whatever"
        assert said(client.ask("!say this")) == "this"

    def test_the_echo_is_the_last_line(self, client: Client) -> None:
        assert said(client.ask("one\ntwo\n\n")) == "ack: two"
        assert said(client.ask("x" * 500)) == "ack: " + "x" * 200

    def test_a_tool_result_is_answered_with_done(self, client: Client) -> None:
        call = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "r" * 300}]}
        asked = [user("!tool Read {}"), {"role": "assistant", "content": [call]}]
        client.send([*asked, user([result, {"type": "text", "text": "<system-reminder>x</system-reminder>"}])])
        assert said(client.receive()[1]) == "done: " + "r" * 100

    def test_the_clis_reminders_are_not_the_users_text(self, client: Client) -> None:
        reminder = "<system-reminder>\n!say wrong\n</system-reminder>\n"
        blocks = [reminder, f"{reminder}right\n\n{reminder}", reminder, "<system-reminder>never closed !say wrong"]
        client.send([user([{"type": "text", "text": text} for text in blocks])])
        assert said(client.receive()[1]) == "ack: right"

    def test_an_answered_prompt_is_not_obeyed_again(self, client: Client) -> None:
        client.send([user("!say again"), {"role": "assistant", "content": "ok"}, user("<system-reminder>")])
        assert said(client.receive()[1]) == "ack: "

    def test_only_what_follows_the_last_heading_of_a_new_message_counts(self, client: Client) -> None:
        transcript = "# New message\n!say old\n\n# Assistant\n!fail 400\n"
        assert said(client.ask(f"{transcript}\n# New message\n\nplain")) == "ack: plain"
        assert said(client.ask(f"{transcript}\n# New message\n!say new")) == "new"

    def test_side_requests_do_not_use_the_script(self, api: ModelApi, client: Client) -> None:
        api.script.append(Text("for the conversation"))
        summary = "Your task is to create a detailed summary of the conversation so far"
        assert "<summary>" in said(client.ask(summary))
        assert said(client.ask("hi")) == "for the conversation"
        assert [request.is_main for request in api.requests] == [False, True]

    def test_an_exception_in_a_hook_reaches_the_client_and_the_test(self) -> None:
        def hook(request: Request) -> Reply:
            raise ZeroDivisionError("oops")

        with pytest.raises(ZeroDivisionError), ModelApi(reply=hook) as api:
            client = Client(api)
            client.send([user("hi")])
            status, body = client.receive()
            client.connection.close()
            assert (status, "oops" in body["error"]["message"]) == (500, True)


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("!say hello you", Text("hello you")),
        ('!tool Read {"path": "a b"}', ToolUse("Read", {"path": "a b"})),
        ("!tool Read", ToolUse("Read", {})),
        ('!tool A {"n": 1}\n!tool B {}', ToolUse("A", {"n": 1}, also=(ToolUse("B", {}),))),
        ("!slow 3 0.5", Slow("w0 w1 w2", words_per_s=2)),
        ("!hang start", Hang("start")),
        ("!hang text so far", Hang("text", "so far")),
        ("!cut half an", Cut("half an")),
        (
            "!fail 429 rate_limit_error Slow down",
            Fail(429, "rate_limit_error", "Slow down", {"x-should-retry": "false"}),
        ),
        ("!toolong", TooLong()),
        ("!big 5", Text("xxxxx")),
        ("please\n!say first\n!say last\nthanks", Text("last")),
        ("!unknown thing", None),
        ("say it!", None),
    ],
)
def test_directives(line: str, reply: Reply | None) -> None:
    assert read_directive(line) == reply


@pytest.mark.parametrize("line", ["!tool Read {", "!tool Read []", "!slow many", "!hang here", "!fail soon", "!big x"])
def test_a_malformed_directive_is_refused_with_a_400(line: str) -> None:
    reply = read_directive(line)
    assert isinstance(reply, Fail)
    assert (reply.status, "malformed directive" in reply.message) == (400, True)


class TestRecord:
    def test_requests_are_recorded_unchanged(self, api: ModelApi, client: Client) -> None:
        client.ask("hello")
        [request] = api.requests
        assert (request.model, request.path, request.is_main) == ("m", "/v1/messages", True)
        assert request.headers["content-type"] == "application/json"
        assert request.shown_texts() == [("user", "hello")]

    def test_shown_texts_leave_out_reminders_and_render_tools_on_demand(self) -> None:
        call = {"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "a"}}
        result = {"type": "tool_result", "tool_use_id": "t", "content": "text\n<system-reminder>x</system-reminder>"}
        talk = "who wrote <system-reminder>this</system-reminder> here?"
        messages = [
            user([{"type": "text", "text": "<system-reminder>x</system-reminder>\n"}, {"type": "text", "text": talk}])
        ]
        messages += [{"role": "assistant", "content": [call]}, user([result])]
        request = Request("/v1/messages", {}, {"messages": messages}, at=0.0)
        assert request.shown_texts() == [("user", talk)]
        assert request.shown_texts(tools=True) == [
            ("user", talk),
            ("assistant", '[tool_use Read {"path": "a"}]'),
            ("user", "[tool_result text]"),
        ]

    @pytest.mark.parametrize(
        ("headers", "body"),
        [
            ({"x-claude-code-agent-id": "a1"}, {}),
            ({}, {"max_tokens": 1}),
            ({}, {"messages": [user("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.")]}),
        ],
    )
    def test_side_requests_are_recognised(self, headers: dict[str, str], body: dict[str, Any]) -> None:
        assert not Request("/v1/messages?beta=true", headers, body, at=0.0).is_main
        assert Request("/v1/messages?beta=true", {}, {"messages": [user("hi")]}, at=0.0).is_main

    def test_waiting_ends_with_the_expected_request(self, api: ModelApi, client: Client) -> None:
        asking = threading.Thread(target=lambda: [client.ask(), client.ask()])
        asking.start()
        assert len(api.wait_for_requests(2, main=True)) >= 2
        asking.join()

    def test_waiting_raises_after_the_timeout(self, api: ModelApi) -> None:
        with pytest.raises(TimeoutError, match="0 of 1"):
            api.wait_for_requests(1, timeout_s=0.01)

    def test_a_record_has_one_line_for_each_request_and_no_key(
        self, api: ModelApi, client: Client, tmp_path: Path
    ) -> None:
        path = tmp_path / "requests.jsonl"
        api.record_to(path)
        client.connection.request("POST", "/v1/messages", '{"messages": []}', {"X-Api-Key": "secret"})
        client.receive()
        assert "secret" not in path.read_text()
        [line] = path.read_text().splitlines()
        assert json.loads(line)["path"] == "/v1/messages"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_ids_are_unique(self, api: ModelApi, client: Client) -> None:
        ids = {client.ask()["id"] for _ in range(5)}
        assert len(ids) == 5
        assert all(each.startswith("msg_") for each in ids)

    def test_many_clients_at_once_are_all_served(self, api: ModelApi) -> None:
        answers: list[str] = []

        def ask(number: int) -> None:
            client = Client(api)
            answers.append(said(client.ask(f"!say {number}")))
            client.connection.close()

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers, key=int) == [str(number) for number in range(40)]
        assert len(api.requests) == 40


class TestUsage:
    def marked(self, *texts: str) -> list[Any]:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
        blocks[-1]["cache_control"] = {"type": "ephemeral"}
        return [user(blocks)]

    def test_answers_contain_the_figures_of_the_cache(self, api: ModelApi, client: Client) -> None:
        client.send(self.marked("one"))
        first = client.receive()[1]["usage"]
        client.send(self.marked("one", "two"), stream=True)
        events = list(client.events())
        written = first["cache_creation_input_tokens"]
        for usage in (events[0]["message"]["usage"], events[-2]["usage"]):
            assert usage["cache_read_input_tokens"] == written > 0
        assert api.requests[1].cache.read_tokens == written

    def test_time_can_be_advanced(self, api: ModelApi, client: Client) -> None:
        for _ in range(2):
            client.send(self.marked("one"))
            client.receive()
            api.clock.advance(600)
        assert [request.cache.read_tokens for request in api.requests] == [0, 0]

    def test_a_refused_request_costs_nothing_and_writes_nothing(self, api: ModelApi, client: Client) -> None:
        api.script.append(Fail(529, "overloaded_error", "Overloaded"))
        for _ in range(2):
            client.send(self.marked("one"))
            client.receive()
        assert api.requests[0].cache == CacheAccount()
        assert api.requests[1].cache.read_tokens == 0

    def test_too_many_breakpoints_are_refused(self, client: Client) -> None:
        mark = {"cache_control": {"type": "ephemeral"}}
        client.send([user([{"type": "text", "text": "a", **mark}] * 5)])
        status, body = client.receive()
        assert (status, "Found 5" in body["error"]["message"]) == (400, True)


class TestOtherRoutes:
    def test_tokens_are_counted(self, api: ModelApi, client: Client) -> None:
        assert client.ask("hello", path="/v1/messages/count_tokens?beta=true")["input_tokens"] > 0
        assert not api.requests[0].is_main

    @pytest.mark.parametrize(
        ("method", "path", "status"), [("HEAD", "/", 200), ("GET", "/x", 404), ("POST", "/x", 404)]
    )
    def test_unknown_requests_are_answered_with_errors(
        self, client: Client, method: str, path: str, status: int
    ) -> None:
        for _ in range(2):  # twice over one connection: the first answer must leave no bytes behind
            client.connection.request(method, path)
            response = client.connection.getresponse()
            response.read()
            assert response.status == status

    @pytest.mark.parametrize("body", ["{", "[]"])
    def test_a_body_that_is_not_a_json_object_is_refused(self, client: Client, body: str) -> None:
        client.connection.request("POST", "/v1/messages", body)
        assert client.receive()[0] == 400

    def test_a_closed_api_has_no_address(self) -> None:
        with ModelApi() as api:
            pass
        api.close()
        with pytest.raises(RuntimeError):
            _ = api.url


class Agent:
    """The real Claude CLI with its own home, and without the caller's environment."""

    def __init__(self, api: ModelApi, home: Path) -> None:
        self.binary = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
        assert self.binary.is_file(), f"the claude-agent-sdk wheel has no bundled CLI at {self.binary}"
        self.work = home / "work"
        self.work.mkdir()
        self.env = {
            "HOME": str(home),
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": api.url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        }

    def turn(self, prompt: str, *flags: str) -> dict[str, Any]:
        """One turn; returns its result line."""
        argv = [str(self.binary), "-p", "--output-format", "stream-json", "--verbose", "--model", "claude-sonnet-4-5"]
        done = subprocess.run(
            [*argv, *flags],
            input=prompt,
            env=self.env,
            cwd=self.work,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        results = [json.loads(line) for line in done.stdout.splitlines() if '"type":"result"' in line]
        assert len(results) == 1, done.stderr
        return dict(results[0])


@pytest.mark.real
def test_the_real_cli_resumes_and_reads_its_whole_last_request_from_the_cache(tmp_path: Path) -> None:
    with ModelApi() as api:
        agent = Agent(api, tmp_path)
        session = str(uuid.uuid4())
        first = agent.turn("hello one", f"--session-id={session}")
        second = agent.turn("hello two", f"--resume={session}")
        assert (first["result"], second["result"]) == ("ack: hello one", "ack: hello two")
        one, two = api.main_requests
    assert two.shown_texts() == [("user", "hello one"), ("assistant", "ack: hello one"), ("user", "hello two")]
    assert one.cache.read_tokens == 0
    assert two.cache.read_tokens == one.cache.prompt_tokens
    assert two.cache.cost_units < one.cache.cost_units / 5
    assert second["usage"]["cache_read_input_tokens"] == two.cache.read_tokens


@pytest.mark.real
def test_the_real_cli_runs_a_tool_and_sends_its_result(tmp_path: Path) -> None:
    with ModelApi([ToolUse("Read", {"file_path": str(tmp_path / "work" / "note.txt")}, text="let me look")]) as api:
        agent = Agent(api, tmp_path)
        (agent.work / "note.txt").write_text("the secret word is clew")
        result = agent.turn("what does the note say?")
        asked, told = api.main_requests
    assert result["result"].startswith("done: ")
    assert "the secret word is clew" in result["result"]
    assert [role for role, _ in told.shown_texts(tools=True)] == ["user", "assistant", "assistant", "user"]
    assert told.cache.read_tokens == asked.cache.prompt_tokens
