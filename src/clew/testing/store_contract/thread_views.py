"""What surfaces show: summaries, pages, the view of one thread, and the changes after a version."""

from __future__ import annotations

from collections.abc import Callable

from clew.core.history import Role
from clew.core.runs.events import MessageSaid, QuestionAsked, RunEnded, TextStreamed, ToolStarted
from clew.core.runs.permissions import Answer
from clew.core.runs.run import RunOptions, RunStatus
from clew.errors import Conflict, NotFound
from clew.store.records import ThreadPage
from clew.store.store import Store
from clew.testing.store_contract.samples import OTHER, OWNER, a_run, a_thread, a_turn, raises


def talk(store: Store, turns: int) -> None:
    store.threads.create(a_thread())
    for number in range(turns):
        role = Role.ASSISTANT if number % 2 else Role.USER
        store.turns.add("thread-1", a_turn(f"turn-{number}", f"words {number}", role))


class ThreadViewContract:
    def test_a_summary_has_what_a_list_shows(self, store: Store) -> None:
        talk(store, 3)
        store.runs.create(a_run("old", cost_usd=0.25, status=RunStatus.ANSWERED))
        store.runs.create(a_run("queued", created_at=2.0))
        store.runs.create(a_run("going", cost_usd=0.5, status=RunStatus.RUNNING, created_at=3.0))
        store.events.append("going", [(1, 1.0, QuestionAsked("q", "Bash", {}, is_form=False))])
        view = store.views.summary("maze")
        assert view.thread == store.threads.find("maze")
        assert (view.turns, view.cost_usd, view.questions, view.last_text) == (3, 0.75, 1, "words 2")
        assert view.live is not None and view.live.id == "going", "what is running comes before what waits"
        store.questions.reply("going", "q", Answer(allow=True), 2.0)
        assert store.views.summary("thread-1").questions == 0
        with raises(NotFound):
            store.views.summary("nothing")

    def test_a_search_covers_names_directories_and_turns(self, store: Store) -> None:
        talk(store, 2)
        store.threads.create(a_thread("thread-2", "Other", cwd="/srv/100%_sure", updated_at=20.0))

        def found(text: str) -> list[str]:
            page = store.views.page(q=text)
            assert page.total == len(page.items)
            return [view.thread.name for view in page.items]

        assert found("WORDS 1") == ["maze"]
        assert found("oth") == ["Other"]
        assert found("100%_") == ["Other"], "no sign has a meaning of its own"
        assert found("0_s") == [] and found("_") == ["Other"]
        assert found("nowhere") == []
        store.turns.archive("thread-1", "turn-1", inclusive=True, at=30.0, why="truncate")
        assert found("words 1") == []

    def test_pages_are_in_order_and_have_the_total(self, store: Store) -> None:
        for number in range(5):
            store.threads.create(a_thread(f"t{number}", f"n{number}", updated_at=float(number)))
        page = store.views.page(limit=2, offset=1)
        assert ([view.thread.name for view in page.items], page.total) == (["n3", "n2"], 5)
        assert store.views.page(cwd="/elsewhere") == ThreadPage([], 0, page.version)

    def test_a_view_is_the_last_page_and_earlier_ones_follow(self, store: Store) -> None:
        talk(store, 7)
        last = store.views.thread("maze", limit=3)
        assert [view.turn.text for view in last.turns] == ["words 4", "words 5", "words 6"] and last.more
        before = store.views.thread("maze", before=last.turns[0].position, limit=10)
        assert [view.turn.text for view in before.turns] == [f"words {n}" for n in range(4)] and not before.more

    def test_a_view_has_the_run_of_each_answer_and_the_live_runs(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run("done", status=RunStatus.ANSWERED, answer_turn_id="a", reason="first_turn"))
        tools = [ToolStarted("t", "Bash", {}), TextStreamed("x"), ToolStarted("u", "Read", {}), MessageSaid("x")]
        store.events.append("done", [(n, 1.0, event) for n, event in enumerate(tools, 1)])
        store.events.append("done", [(1, 1.0, tools[0])])  # the same event again
        store.turns.add("thread-1", a_turn("u", "ask", run_id="done"))
        store.turns.add("thread-1", a_turn("a", "said", Role.ASSISTANT, run_id="done"))
        asked, said = store.views.thread("maze").turns
        assert asked.run is None and asked.steps == 0
        assert said.run == store.runs.find("done") and said.steps == 2
        assert [event.kind for event in store.events.steps("done")] == ["tool_started", "tool_started", "message_said"]
        assert store.views.turn("thread-1", "a") == said
        store.turns.add("thread-1", a_turn("v", "again", run_id="failed"))
        store.runs.create(a_run("failed", prompt_turn_id="v", created_at=6.0))
        assert store.views.turn("thread-1", "v").run is None, "it has not ended"
        store.runs.update("failed", status=RunStatus.FAILED, error="no")
        assert store.views.turn("thread-1", "v").run == store.runs.find("failed")
        store.runs.create(a_run("later", created_at=8.0))
        store.runs.create(a_run("sooner", created_at=7.0))
        assert [view.run.id for view in store.views.thread("maze").runs] == ["failed", "sooner", "later"]
        store.runs.update("sooner", status=RunStatus.RUNNING)
        store.runs.update("sooner", status=RunStatus.FAILED, error="no")
        store.runs.update("later", status=RunStatus.CANCELLED)
        shown = [view.run.id for view in store.views.thread("maze").runs]
        assert shown == ["sooner"], "the newest that began, since no turn tells of it"

    def test_every_change_of_a_thread_raises_the_version(self, store: Store) -> None:
        talk(store, 4)
        store.threads.create(a_thread("thread-2", "other"))
        steps: list[Callable[[], object]] = [
            lambda: store.threads.update("thread-1", at=20.0, model="haiku"),
            lambda: store.turns.add("thread-1", a_turn("new")),
            lambda: store.turns.edit("turn-1", "better", 21.0),
            lambda: store.turns.archive("thread-1", "turn-3", inclusive=True, at=22.0, why="truncate"),
            lambda: store.runs.create(a_run()),
            lambda: store.runs.edit_prompt("run-1", "other words"),
            lambda: store.runs.update("run-1", status=RunStatus.RUNNING),
            lambda: store.events.append("run-1", [(1, 1.0, QuestionAsked("q", "Bash", {}, is_form=False))]),
            lambda: store.questions.reply("run-1", "q", Answer(allow=True), 2.0),
            lambda: store.runs.request_cancel("run-1", 3.0),
            lambda: store.events.append("run-1", [(2, 2.0, RunEnded("cancelled", "cancelled"))]),
        ]
        for step in steps:
            before = store.versions.current()
            step()
            changes = store.views.changes(before)
            assert [view.thread.id for view in changes.summaries] == ["thread-1"]
            assert changes.version == store.versions.current() > before
        before = store.versions.current()
        store.events.append("run-1", [(3, 3.0, TextStreamed("x"))])
        assert store.views.changes(before).summaries == [], "pieces of text are told by the run's own events"
        store.threads.delete("thread-1")
        assert store.views.changes(before).deleted == ["thread-1"]

    def test_what_was_rolled_back_is_not_a_change(self, store: Store) -> None:
        talk(store, 1)
        before = store.versions.current()
        with raises(ZeroDivisionError), store.transaction():
            store.threads.update("thread-1", at=20.0, model="haiku")
            _ = 1 / 0
        assert store.versions.current() == before and store.views.changes(before).summaries == []

    def test_a_queued_prompt_can_be_changed_until_it_starts(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run())
        assert store.runs.edit_prompt("run-1", "better").prompt == "better"
        store.runs.update("run-1", status=RunStatus.RUNNING)
        with raises(Conflict):
            store.runs.edit_prompt("run-1", "too late")
        assert store.runs.require("run-1").prompt == "better"

    def test_a_run_without_an_owner_is_claimed_once(self, store: Store) -> None:
        store.threads.create(a_thread())
        asked = RunOptions(force_fresh=True, enable_resume=False, timeout_s=5.0, lasting=True)
        store.runs.create(a_run(asked=asked))
        assert store.runs.require("run-1").asked == asked
        assert store.runs.claim("run-1", OWNER)
        assert not store.runs.claim("run-1", OTHER)
        assert store.runs.require("run-1").owner == OWNER
