"""What surfaces show: cards, pages, one moment's view, and what changed after a version."""

from __future__ import annotations

from collections.abc import Callable

from clew.core.events import MessageSaid, QuestionAsked, RunEnded, TextStreamed, ToolStarted
from clew.core.history import Role
from clew.core.permissions import Answer
from clew.core.run import Asked, RunStatus
from clew.errors import Conflict, NotFound
from clew.store.records import ThreadPage
from clew.store.store import Store
from clew.testing.store_contract.samples import OTHER, OWNER, a_run, a_thread, a_turn, raises


def talk(store: Store, turns: int) -> None:
    store.create_thread(a_thread())
    for number in range(turns):
        role = Role.ASSISTANT if number % 2 else Role.USER
        store.add_turn("thread-1", a_turn(f"turn-{number}", f"words {number}", role))


class CardContract:
    def test_a_card_holds_what_a_list_shows(self, store: Store) -> None:
        talk(store, 3)
        store.create_run(a_run("old", cost_usd=0.25, status=RunStatus.ANSWERED))
        store.create_run(a_run("queued", created_at=2.0))
        store.create_run(a_run("going", cost_usd=0.5, status=RunStatus.RUNNING, created_at=3.0))
        store.append_events("going", [(1, 1.0, QuestionAsked("q", "Bash", {}, is_form=False))])
        card = store.card("maze")
        assert card.thread == store.thread("maze")
        assert (card.turns, card.cost_usd, card.questions, card.last_text) == (3, 0.75, 1, "words 2")
        assert card.live is not None and card.live.id == "going", "what is running comes before what waits"
        store.reply("going", "q", Answer(allow=True), 2.0)
        assert store.card("thread-1").questions == 0
        with raises(NotFound):
            store.card("nothing")

    def test_a_search_looks_in_names_directories_and_what_was_said(self, store: Store) -> None:
        talk(store, 2)
        store.create_thread(a_thread("thread-2", "Other", cwd="/srv/100%_sure", updated_at=20.0))

        def found(text: str) -> list[str]:
            page = store.cards(q=text)
            assert page.total == len(page.items)
            return [card.thread.name for card in page.items]

        assert found("WORDS 1") == ["maze"]
        assert found("oth") == ["Other"]
        assert found("100%_") == ["Other"], "no sign has a meaning of its own"
        assert found("0_s") == [] and found("_") == ["Other"]
        assert found("nowhere") == []
        store.archive_turns("thread-1", "turn-1", inclusive=True, at=30.0, why="truncate")
        assert found("words 1") == []

    def test_pages_are_in_order_and_know_the_whole(self, store: Store) -> None:
        for number in range(5):
            store.create_thread(a_thread(f"t{number}", f"n{number}", updated_at=float(number)))
        page = store.cards(limit=2, offset=1)
        assert ([card.thread.name for card in page.items], page.total) == (["n3", "n2"], 5)
        assert store.cards(cwd="/elsewhere") == ThreadPage([], 0, page.version)

    def test_a_view_is_the_last_page_and_earlier_ones_follow(self, store: Store) -> None:
        talk(store, 7)
        last = store.view("maze", limit=3)
        assert [card.turn.text for card in last.turns] == ["words 4", "words 5", "words 6"] and last.more
        before = store.view("maze", before=last.turns[0].position, limit=10)
        assert [card.turn.text for card in before.turns] == [f"words {n}" for n in range(4)] and not before.more

    def test_a_view_shows_how_an_answer_came_about_and_what_is_going_on(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_run(a_run("done", status=RunStatus.ANSWERED, answer_turn_id="a", reason="first_turn"))
        tools = [ToolStarted("t", "Bash", {}), TextStreamed("x"), ToolStarted("u", "Read", {}), MessageSaid("x")]
        store.append_events("done", [(n, 1.0, event) for n, event in enumerate(tools, 1)])
        store.append_events("done", [(1, 1.0, tools[0])])  # sent again
        store.add_turn("thread-1", a_turn("u", "ask", run_id="done"))
        store.add_turn("thread-1", a_turn("a", "said", Role.ASSISTANT, run_id="done"))
        asked, said = store.view("maze").turns
        assert asked.run is None and asked.steps == 0
        assert said.run == store.run("done") and said.steps == 2
        assert [event.kind for event in store.steps("done")] == ["tool_started", "tool_started", "message_said"]
        assert store.turn_card("thread-1", "a") == said
        store.add_turn("thread-1", a_turn("v", "again", run_id="failed"))
        store.create_run(a_run("failed", prompt_turn_id="v", created_at=6.0))
        assert store.turn_card("thread-1", "v").run is None, "it has not ended"
        store.update_run("failed", status=RunStatus.FAILED, error="no")
        assert store.turn_card("thread-1", "v").run == store.run("failed")
        store.create_run(a_run("later", created_at=8.0))
        store.create_run(a_run("sooner", created_at=7.0))
        assert [card.run.id for card in store.view("maze").runs] == ["failed", "sooner", "later"]
        store.update_run("sooner", status=RunStatus.RUNNING)
        store.update_run("sooner", status=RunStatus.FAILED, error="no")
        store.update_run("later", status=RunStatus.CANCELLED)
        shown = [card.run.id for card in store.view("maze").runs]
        assert shown == ["sooner"], "the newest that began, since no turn tells of it"

    def test_every_change_of_a_thread_moves_the_version(self, store: Store) -> None:
        talk(store, 4)
        store.create_thread(a_thread("thread-2", "other"))
        steps: list[Callable[[], object]] = [
            lambda: store.update_thread("thread-1", at=20.0, model="haiku"),
            lambda: store.add_turn("thread-1", a_turn("new")),
            lambda: store.edit_turn("turn-1", "better", 21.0),
            lambda: store.archive_turns("thread-1", "turn-3", inclusive=True, at=22.0, why="truncate"),
            lambda: store.create_run(a_run()),
            lambda: store.edit_prompt("run-1", "other words"),
            lambda: store.update_run("run-1", status=RunStatus.RUNNING),
            lambda: store.append_events("run-1", [(1, 1.0, QuestionAsked("q", "Bash", {}, is_form=False))]),
            lambda: store.reply("run-1", "q", Answer(allow=True), 2.0),
            lambda: store.request_cancel("run-1", 3.0),
            lambda: store.append_events("run-1", [(2, 2.0, RunEnded("cancelled", "cancelled"))]),
        ]
        for step in steps:
            before = store.version()
            step()
            changes = store.changes(before)
            assert [card.thread.id for card in changes.cards] == ["thread-1"]
            assert changes.version == store.version() > before
        before = store.version()
        store.append_events("run-1", [(3, 3.0, TextStreamed("x"))])
        assert store.changes(before).cards == [], "pieces of text are told by the run's own events"
        store.delete_thread("thread-1")
        assert store.changes(before).deleted == ["thread-1"]

    def test_what_was_rolled_back_is_no_change(self, store: Store) -> None:
        talk(store, 1)
        before = store.version()
        with raises(ZeroDivisionError), store.transaction():
            store.update_thread("thread-1", at=20.0, model="haiku")
            _ = 1 / 0
        assert store.version() == before and store.changes(before).cards == []

    def test_a_queued_prompt_can_be_changed_until_it_starts(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_run(a_run())
        assert store.edit_prompt("run-1", "better").prompt == "better"
        store.update_run("run-1", status=RunStatus.RUNNING)
        with raises(Conflict):
            store.edit_prompt("run-1", "too late")
        assert store.require_run("run-1").prompt == "better"

    def test_a_run_that_nobody_carries_out_is_claimed_once(self, store: Store) -> None:
        store.create_thread(a_thread())
        asked = Asked(force_fresh=True, enable_resume=False, timeout_s=5.0, lasting=True)
        store.create_run(a_run(asked=asked))
        assert store.require_run("run-1").asked == asked
        assert store.claim_run("run-1", OWNER)
        assert not store.claim_run("run-1", OTHER)
        assert store.require_run("run-1").owner == OWNER
