"""Runs with their attempts, events and questions."""

from __future__ import annotations

from typing import Any

from clew.core.costs.usage import Usage
from clew.core.ids import AttemptId, RunId, SessionId
from clew.core.record import replace
from clew.core.runs.events import (
    Event,
    MessageSaid,
    QuestionAnswered,
    QuestionAsked,
    QuestionWithdrawn,
    RunEnded,
    TextStreamed,
    ToolStarted,
)
from clew.core.runs.permissions import Answer, Scope
from clew.core.runs.question import QuestionState
from clew.core.runs.run import LIVE, Attempt, HostItem, IllegalStatus, RunBelonging, RunStatus
from clew.core.runs.tool_rules import RuleKind, ToolRule
from clew.errors import Conflict, NotFound
from clew.store.store import Store
from clew.testing.store_contract.jobs import a_job
from clew.testing.store_contract.pairs import a_pair
from clew.testing.store_contract.reviews import a_review
from clew.testing.store_contract.samples import ODD_TEXTS, OWNER, a_run, a_thread, raises


class RunContract:
    def test_a_run_is_read_back_unchanged(self, store: Store) -> None:
        store.threads.create(a_thread())
        run = a_run(
            model="opus",
            owner=OWNER,
            session_id="s",
            session_resumed=True,
            reason="no_pin",
            fallback=True,
            usage=Usage(1, 2, 3, 4),
            cost_usd=0.125,
            prompt_chars=5,
            transcript_chars=6,
            estimate_usd=0.5,
            estimate_new_tokens=7,
            plain_resume_usd=0.25,
            context_tokens=8,
            plain_context_tokens=9,
            outside=True,
            rewound_to=4,
            rewound_to_turn_id="turn-4",
            typed="what was typed",
            created_at=1.0,
            started_at=2.0,
        )
        store.runs.create(run)
        assert store.runs.find("run-1") == store.runs.require("run-1") == run
        assert store.runs.find("nothing") is None
        with raises(NotFound):
            store.runs.require("nothing")
        with raises(NotFound):
            store.runs.create(a_run("run-2", "nobody"))

    def test_a_run_is_updated_and_ends_once(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        store.runs.update("run-1", status=RunStatus.RUNNING, owner=OWNER, started_at=2.0)
        ended = store.runs.update(
            "run-1",
            status=RunStatus.ANSWERED,
            usage=Usage(1, 2, 3, 4),
            outcome="success",
            ended_at=3.0,
            error=ODD_TEXTS[4],
        )
        assert store.runs.find("run-1") == ended
        assert (ended.status, ended.owner, ended.started_at, ended.usage) == ("answered", OWNER, 2.0, Usage(1, 2, 3, 4))
        with raises(IllegalStatus):
            store.runs.update("run-1", status=RunStatus.FAILED, outcome="failed")
        assert store.runs.find("run-1") == ended
        with raises(NotFound):
            store.runs.update("nothing", status=RunStatus.FAILED)
        with raises(TypeError):
            store.runs.update("run-1", thread_id="other")

    def test_runs_are_found_by_thread_and_status_newest_first(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.threads.create(a_thread("thread-2", "other"))
        for number in range(6):  # all have the same time, so the order of creation decides
            store.runs.create(a_run(f"run-{number}"))
        store.runs.create(a_run("run-other", "thread-2", created_at=5.0))
        store.runs.update("run-1", status=RunStatus.RUNNING)
        store.runs.update("run-2", status=RunStatus.CANCELLED)
        assert [run.id for run in store.runs.newest(limit=2)] == ["run-other", "run-5"]
        assert [run.id for run in store.runs.newest(thread_id="thread-1", limit=3)] == ["run-5", "run-4", "run-3"]
        assert [run.id for run in store.runs.newest(statuses=[RunStatus.CANCELLED])] == ["run-2"]
        live = [run.id for run in store.runs.newest(thread_id="thread-1", statuses=LIVE)]
        assert live == ["run-5", "run-4", "run-3", "run-1", "run-0"]
        assert [run.id for run in store.runs.newest(statuses=LIVE, limit=2)] == ["run-other", "run-5"]

    def test_only_a_live_run_can_be_cancelled(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        assert not store.runs.cancel_requested("run-1")
        assert store.runs.request_cancel("run-1", 5.0) and store.runs.request_cancel("run-1", 6.0)
        assert store.runs.cancel_requested("run-1") and store.runs.require("run-1").cancel_requested
        store.runs.update("run-1", status=RunStatus.RUNNING)
        assert store.runs.cancel_requested("run-1")  # an update of other fields does not undo the request
        store.runs.update("run-1", status=RunStatus.CANCELLED)
        assert not store.runs.request_cancel("run-1", 7.0) and not store.runs.request_cancel("nothing", 7.0)

    def test_attempts_are_read_back_in_order(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        first = Attempt(AttemptId("z"), RunId("run-1"), 1, SessionId("s-1"), "uuid-1", True, started_at=1.0)
        second = Attempt(AttemptId("a"), RunId("run-1"), 2, SessionId("s-2"), "uuid-2", False, started_at=2.0)
        store.runs.create_attempt(first)
        store.runs.create_attempt(second)
        ended = store.runs.update_attempt(
            "z", pid=7, pid_started=1.5, outcome="rejected", exit_status=-9, stderr_tail="\0"
        )
        assert store.runs.attempts("run-1") == [ended, second]
        assert ended == replace(first, pid=7, pid_started=1.5, outcome="rejected", exit_status=-9, stderr_tail="\0")
        with raises(NotFound):
            store.runs.update_attempt("nothing", pid=1)

    def test_stats_are_summed(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.threads.create(a_thread("thread-2", "other"))
        resumed: dict[str, Any] = {
            "session_resumed": True,
            "outcome": "success",
            "usage": Usage(1, 2, 30, 4),
            "cost_usd": 0.25,
        }
        store.runs.create(a_run("run-1", **resumed, estimate_usd=1.0, plain_resume_usd=0.125, created_at=1.0))
        store.runs.create(a_run("run-2", **resumed, created_at=2.0))
        store.runs.create(a_run("run-3", reason="no_pin", outcome="success", fallback=True, created_at=3.0))
        store.runs.create(a_run("run-4", "thread-2", reason="no_pin", outcome="failed", created_at=4.0))
        rows = {(row.session_resumed, row.reason, row.outcome): row for row in store.runs.stats()}
        assert {key: row.runs for key, row in rows.items()} == {
            (True, None, "success"): 2,
            (False, "no_pin", "success"): 1,
            (False, "no_pin", "failed"): 1,
        }
        both = rows[(True, None, "success")]
        assert (both.usage, both.cost_usd) == (Usage(2, 4, 60, 8), 0.5)
        assert (both.estimated_runs, both.estimated_cost_usd, both.estimate_usd) == (1, 0.25, 1.0)
        assert (both.plain_resume_runs, both.plain_resume_cost_usd, both.plain_resume_usd) == (1, 0.25, 0.125)
        assert rows[(False, "no_pin", "success")].fallbacks == 1
        assert [row.outcome for row in store.runs.stats(thread_id="thread-2")] == ["failed"]
        assert sum(row.runs for row in store.runs.stats(since=2.0)) == 3
        store.runs.create(a_run("run-5", reason="no_pin", outcome="success", usage=Usage(1, 2), created_at=5.0))
        assert sum(row.unpriced_runs for row in store.runs.stats()) == 1, "tokens, and no price"
        store.runs.create(a_run("run-6", **resumed, reason="history_changed", rewound_to=4, created_at=6.0))
        [rewound] = [row for row in store.runs.stats() if row.rewound]
        assert (rewound.session_resumed, rewound.reason, rewound.rewound) == (True, "history_changed", 1)
        before = store.runs.stats()
        store.runs.create(a_run("run-7", **resumed, outside=True, ended_at=8.0, started_at=7.0, created_at=7.0))
        assert store.runs.stats() == before, "what was done outside Clew is not counted"
        assert store.runs.stats(thread_id="nobody") == []

    def test_stats_are_grouped_by_day(self, store: Store) -> None:
        store.threads.create(a_thread())
        day_s = 86_400.0
        moments = [2 * day_s, 2 * day_s + 1, 3 * day_s - 0.001, 3 * day_s, 3 * day_s + 0.5, 20_000 * day_s - 0.25]
        for number, at in enumerate(moments):
            store.runs.create(a_run(f"run-{number}", created_at=at))
        assert [(row.day, row.runs) for row in store.runs.stats()] == [(2, 3), (3, 2), (19_999, 1)]

    def test_stats_are_grouped_by_the_kind_and_the_directory_of_the_thread(self, store: Store) -> None:
        for n, (kind, cwd) in enumerate((("chat", "/a"), ("job", "/a"), ("job", "/b")), 1):
            store.threads.create(replace(a_thread(f"thread-{n}", f"name-{n}"), kind=kind, cwd=cwd))
            store.runs.create(a_run(f"run-{n}", f"thread-{n}", cost_usd=float(n)))
        found = [(row.kind, row.directory, row.runs, row.cost_usd) for row in store.runs.stats()]
        assert found == [("chat", None, 1, 1.0), ("job", None, 2, 5.0)]
        found = [(row.kind, row.directory, row.runs, row.cost_usd) for row in store.runs.stats(by_directory=True)]
        assert found == [("chat", "/a", 1, 1.0), ("job", "/a", 1, 2.0), ("job", "/b", 1, 3.0)]
        assert [row.directory for row in store.runs.stats(thread_id="thread-3", by_directory=True)] == ["/b"]

    def test_a_run_names_its_thread_and_the_job_review_or_pair_that_it_is_part_of(self, store: Store) -> None:
        for n, kind in enumerate(("chat", "job", "review", "hook", "pair", "pair"), 1):
            store.threads.create(replace(a_thread(f"thread-{n}", ODD_TEXTS[4] if n == 1 else f"name-{n}"), kind=kind))
            store.runs.create(a_run(f"run-{n}", f"thread-{n}", job_id="hook-2" if kind == "hook" else None))
        store.jobs.create(a_job("job", thread_id="thread-2"))
        review = store.reviews.create(a_review(thread_id="thread-3"), "2026-01-01")
        for name in ("hook-1", "hook-2"):
            store.jobs.create(a_job(name, thread_id="thread-4", kind="hook"))
        store.pairs.create(a_pair(instructor_thread_id="thread-5", worker_thread_id="thread-6"))
        runs = [store.runs.require(f"run-{n}") for n in range(1, 7)]
        pair = HostItem("pair", "pair-1", "build")
        known = {
            "run-1": RunBelonging(ODD_TEXTS[4], "chat"),
            "run-2": RunBelonging("name-2", "job", HostItem("job", "job")),
            "run-3": RunBelonging("name-3", "review", HostItem("review", review.id)),
            "run-4": RunBelonging("name-4", "hook", HostItem("job", "hook-2")),
            "run-5": RunBelonging("name-5", "pair", pair),
            "run-6": RunBelonging("name-6", "pair", pair),
        }
        assert store.runs.belongings(runs) == known
        assert store.runs.belongings([]) == {}
        assert {view.run.id: view.belonging for view in store.views.runs(runs)} == known
        assert [run.id for run in store.runs.of_job("hook-2")] == ["run-4"] and store.runs.of_job("hook-1") == []
        with raises(TypeError):
            store.runs.update("run-4", job_id="hook-1")
        store.threads.delete("thread-1")
        assert "run-1" not in store.runs.belongings(runs) and len(store.views.runs(runs)) == 5
        with raises(NotFound):
            store.views.run(runs[0])

    def test_the_last_run_whose_sessions_size_is_known(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.threads.create(a_thread("thread-2", "other"))
        assert store.runs.last_measured("thread-1", "claude") is None
        store.runs.create(a_run("late", context_tokens=2, ended_at=5.0))
        store.runs.create(a_run("early", context_tokens=1, ended_at=4.0))
        store.runs.create(a_run("unknown", ended_at=6.0))
        store.runs.create(a_run("other-agent", agent="codex", context_tokens=3, ended_at=7.0))
        store.runs.create(a_run("elsewhere", "thread-2", context_tokens=4, ended_at=8.0))
        found = store.runs.last_measured("thread-1", "claude")
        assert found is not None and found.id == "late"

    def test_the_last_run_in_a_session_whose_size_is_known(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.threads.create(a_thread("thread-2", "other"))
        ours, other = SessionId("session-1"), SessionId("session-2")
        assert store.runs.last_measured_in("thread-1", ours) is None
        store.runs.create(a_run("late", session_id=ours, context_tokens=2, ended_at=5.0))
        store.runs.create(a_run("early", session_id=ours, context_tokens=1, ended_at=4.0))
        store.runs.create(a_run("unknown", session_id=ours, ended_at=6.0))
        store.runs.create(a_run("other-session", session_id=other, context_tokens=3, ended_at=7.0))
        store.runs.create(a_run("elsewhere", "thread-2", session_id=ours, context_tokens=4, ended_at=8.0))
        found = store.runs.last_measured_in("thread-1", ours)
        assert found is not None and found.id == "late"


class EventContract:
    def test_events_are_read_back_unchanged(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        given = [
            (1, 1.5, TextStreamed(ODD_TEXTS[4])),
            (2, 2.5, ToolStarted("t", "Bash", {"command": "ls \0", "n": [1, {"deep": None}]})),
            (4, 3.5, MessageSaid("\0", "m")),
            (5, 4.5, RunEnded("answered", "success", Usage(1, 2, 3, 4), 0.5)),
        ]
        store.events.append("run-1", given)
        assert [(stored.seq, stored.at, stored.event) for stored in store.events.of_run("run-1")] == given
        assert [stored.kind for stored in store.events.of_run("run-1", after_seq=2)] == ["message_said", "run_ended"]
        assert (
            store.events.last_seq("run-1") == 5
            and store.events.last_seq("nothing") == 0
            and store.events.of_run("nothing") == []
        )

    def test_nothing_comes_after_the_end_of_a_run(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        store.events.append("run-1", [(1, 1.0, RunEnded("answered", "success"))])
        store.events.append("run-1", [(2, 2.0, ToolStarted("t", "Bash", {})), (3, 2.0, TextStreamed("late"))])
        assert [stored.kind for stored in store.events.of_run("run-1")] == ["run_ended"]

    def test_an_event_sent_twice_is_stored_once(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        store.events.append("run-1", [(1, 1.0, TextStreamed("a")), (2, 2.0, TextStreamed("b"))])
        store.events.append("run-1", [(2, 9.0, TextStreamed("again")), (3, 3.0, TextStreamed("c"))])
        store.events.append("run-1", [])
        assert [stored.body["text"] for stored in store.events.of_run("run-1")] == ["a", "b", "c"]
        with raises(NotFound):
            store.events.append("nothing", [(1, 1.0, TextStreamed("a"))])


def asked(id: str = "q", **input: object) -> QuestionAsked:
    return QuestionAsked(id, "Bash", input, is_form=False)


def append(store: Store, *events: Event, run: str = "run-1") -> None:
    first = store.events.last_seq(run) + 1
    store.events.append(run, [(first + n, float(first + n), event) for n, event in enumerate(events)])


class QuestionContract:
    def test_a_question_is_open_from_the_event_that_asks_to_the_one_that_answers(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        append(store, asked(command=ODD_TEXTS[4], n=[1]))
        [question] = store.questions.open("thread-1")
        assert (question.id, question.run_id, question.thread_id, question.tool) == ("q", "run-1", "thread-1", "Bash")
        assert question.input == {"command": ODD_TEXTS[4], "n": [1]}
        assert question.is_open and question.asked_at == 1.0
        assert store.questions.open() == [question] and store.questions.open("nobody") == []
        append(store, QuestionAnswered("q", True))
        closed = store.questions.require("run-1", "q")
        assert (closed.state, closed.allowed, closed.answered_at) == (QuestionState.ANSWERED, True, 2.0)
        assert store.questions.open() == []

    def test_a_question_keeps_the_rule_that_its_person_was_shown(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        rule = ToolRule("Bash", RuleKind.COMMAND, ODD_TEXTS[4], "/w")
        append(store, asked().replace(rule=rule), asked("other"))
        assert [question.tool_rule for question in store.questions.of_run("run-1")] == [rule, None]
        answer = Answer(allow=True, scope=Scope.THREAD)
        assert store.questions.reply("run-1", "q", answer, 7.0).reply == answer
        [event, _] = store.events.of_run("run-1")
        assert "rule" not in event.body

    def test_a_question_is_closed_when_it_is_withdrawn_or_its_run_ends(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        append(store, asked("a"), asked("b"), QuestionWithdrawn("a"))
        assert [question.id for question in store.questions.open()] == ["b"]
        append(store, RunEnded("cancelled", "cancelled"))
        assert [question.state for question in store.questions.of_run("run-1")] == ["withdrawn", "withdrawn"]

    def test_a_question_of_an_interrupted_run_stays_open_until_the_next_prompt(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        store.runs.create(a_run("run-2"))
        append(store, asked(), RunEnded("interrupted", "killed"))
        assert [question.id for question in store.questions.open()] == ["q"]
        store.questions.withdraw_earlier("thread-1", "run-1", 5.0)
        assert store.questions.open(), "a run does not withdraw its own"
        store.questions.withdraw_earlier("thread-1", "run-2", 5.0)
        assert store.questions.open() == []

    def test_the_first_answer_counts(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        append(store, asked())
        answer = Answer(allow=True, message=ODD_TEXTS[3], answers={"Which?": ODD_TEXTS[4]})
        replied = store.questions.reply("run-1", "q", answer, 7.0)
        assert replied.reply == answer and not replied.is_open
        with raises(Conflict):
            store.questions.reply("run-1", "q", Answer(allow=False), 8.0)
        assert store.questions.require("run-1", "q").reply == answer
        with raises(NotFound):
            store.questions.reply("run-1", "nothing", answer, 8.0)
        append(store, QuestionAnswered("q", True))
        with raises(Conflict):
            store.questions.reply("run-1", "q", answer, 9.0)

    def test_an_answer_that_is_being_delivered_is_not_withdrawn_by_the_next_prompt(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        append(store, asked())
        store.questions.reply("run-1", "q", Answer(allow=True), 7.0)
        store.questions.withdraw_earlier("thread-1", "run-2", 8.0)
        [waiting] = store.questions.open("thread-1")
        store.questions.close(waiting, QuestionState.ANSWERED, 9.0, allowed=True)
        assert store.questions.open() == []
        assert store.questions.require("run-1", "q").allowed
