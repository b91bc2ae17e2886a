"""Questions: opened and closed by the events that tell of them, answered once, left open only by a death."""

from __future__ import annotations

from clew.core.runs.events import Event, QuestionAnswered, QuestionAsked, QuestionWithdrawn, RunEnded
from clew.core.runs.permissions import Answer
from clew.core.runs.question import QuestionState
from clew.errors import Conflict, NotFound
from clew.store.store import Store
from clew.testing.store_contract.samples import ODD_TEXTS, a_run, a_thread, raises


def asked(id: str = "q", **input: object) -> QuestionAsked:
    return QuestionAsked(id, "Bash", input, is_form=False)


def tell(store: Store, *events: Event, run: str = "run-1") -> None:
    first = store.events.last_seq(run) + 1
    store.events.append(run, [(first + n, float(first + n), event) for n, event in enumerate(events)])


class QuestionContract:
    def test_a_question_is_open_from_the_event_that_asks_to_the_one_that_answers(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        tell(store, asked(command=ODD_TEXTS[4], n=[1]))
        [question] = store.questions.open("thread-1")
        assert (question.id, question.run_id, question.thread_id, question.tool) == ("q", "run-1", "thread-1", "Bash")
        assert question.input == {"command": ODD_TEXTS[4], "n": [1]}
        assert question.is_open and question.asked_at == 1.0
        assert store.questions.open() == [question] and store.questions.open("nobody") == []
        tell(store, QuestionAnswered("q", True))
        closed = store.questions.require("run-1", "q")
        assert (closed.state, closed.allowed, closed.answered_at) == (QuestionState.ANSWERED, True, 2.0)
        assert store.questions.open() == []

    def test_one_that_is_withdrawn_or_whose_run_ends_is_asked_no_more(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        tell(store, asked("a"), asked("b"), QuestionWithdrawn("a"))
        assert [question.id for question in store.questions.open()] == ["b"]
        tell(store, RunEnded("cancelled", "cancelled"))
        assert [question.state for question in store.questions.of_run("run-1")] == ["withdrawn", "withdrawn"]

    def test_one_whose_run_was_interrupted_stays_open_until_the_person_goes_on(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        store.runs.create(a_run("run-2"))
        tell(store, asked(), RunEnded("interrupted", "killed"))
        assert [question.id for question in store.questions.open()] == ["q"]
        store.questions.withdraw_earlier("thread-1", "run-1", 5.0)
        assert store.questions.open(), "a run does not withdraw its own"
        store.questions.withdraw_earlier("thread-1", "run-2", 5.0)
        assert store.questions.open() == []

    def test_the_first_answer_counts(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        tell(store, asked())
        answer = Answer(allow=True, message=ODD_TEXTS[3], answers={"Which?": ODD_TEXTS[4]})
        replied = store.questions.reply("run-1", "q", answer, 7.0)
        assert replied.reply == answer and not replied.is_open
        with raises(Conflict):
            store.questions.reply("run-1", "q", Answer(allow=False), 8.0)
        assert store.questions.require("run-1", "q").reply == answer
        with raises(NotFound):
            store.questions.reply("run-1", "nothing", answer, 8.0)
        tell(store, QuestionAnswered("q", True))
        with raises(Conflict):
            store.questions.reply("run-1", "q", answer, 9.0)

    def test_an_answer_on_its_way_is_not_withdrawn_by_the_next_prompt(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        tell(store, asked())
        store.questions.reply("run-1", "q", Answer(allow=True), 7.0)
        store.questions.withdraw_earlier("thread-1", "run-2", 8.0)
        [waiting] = store.questions.open("thread-1")
        store.questions.close(waiting, QuestionState.ANSWERED, 9.0, allowed=True)
        assert store.questions.open() == []
        assert store.questions.require("run-1", "q").allowed
