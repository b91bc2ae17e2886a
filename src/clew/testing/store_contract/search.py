"""Search: pages of threads by age, size or cost, and turns by their words."""

from __future__ import annotations

from clew.core.history import Role
from clew.store.store import Store
from clew.store.views.search import FEW_TURNS
from clew.testing.store_contract.samples import ODD_TEXTS, a_run, a_thread, a_turn

RUBBISH = (
    "",
    "   ",
    '"',
    '""',
    "*",
    '"*"',
    "AND",
    "OR NOT",
    "a AND",
    "(",
    "NEAR(",
    "^x",
    "-",
    "a:b",
    "!&|",
    "';--",
    "\0",
)
LONG = " ".join(f"w{number}" for number in range(2000))


class SearchContract:
    def test_words_find_the_turns_that_have_all_of_them(self, store: Store) -> None:
        _talk(
            store,
            "The login fails.",
            "open_run() in src/clew/queue.py",
            "Login works; the queue fails.",
            "Grüße 線 E\u0301a",
        )
        assert _found(store, "login") == ["turn-2", "turn-0"], "the last that came first, whatever the case"
        assert _found(store, "FAILS login queue") == ["turn-2"]
        assert _found(store, '"login fails"') == ["turn-0"]
        assert _found(store, '"fails login"') == []
        assert _found(store, "que") == [] and _found(store, "que*") == ["turn-2", "turn-1"]
        assert _found(store, '"the log*"') == ["turn-0"]
        assert _found(store, "open_run") == _found(store, "run") == _found(store, "src/clew") == ["turn-1"]
        assert _found(store, "clew/open") == []
        assert _found(store, "grüße") == _found(store, "線") == _found(store, "E\u0301a") == ["turn-3"]
        assert _found(store, "nowhere") == []

    def test_a_hit_has_the_position_of_the_words(self, store: Store) -> None:
        store.threads.create(a_thread())
        text = f"{'before ' * 50}\n\tthe \x1b[31m needle\0 is here, a needle {'after ' * 50}"
        store.turns.add("thread-1", a_turn("turn-1", text, Role.ASSISTANT, agent="claude", model="opus"))
        [hit] = store.search.turns("needle")
        assert (hit.thread, hit.turn_id, hit.role, hit.agent, hit.archived) == (
            store.threads.find("maze"),
            "turn-1",
            "assistant",
            "claude",
            False,
        )
        shown = hit.snippet.text
        assert shown[0] == shown[-1] == "…" and "\n" not in shown and len(shown) < 250
        assert [shown[start:end] for start, end in hit.snippet.hits] == ["needle", "needle"]

    def test_malformed_and_long_queries_are_not_errors(self, store: Store) -> None:
        _talk(store, "one AND two, NOT three", LONG)
        for query in (*RUBBISH, *ODD_TEXTS, LONG, f'"{LONG}"', "x" * 100_000, "1" * 10_000 + "*"):
            assert isinstance(store.search.turns(query), list), query[:50]
        assert _found(store, "AND") == ["turn-0"], "a word like any other"
        assert _found(store, " ".join(f"w{number}" for number in range(20))) == ["turn-1"]

    def test_the_index_follows_every_change(self, store: Store) -> None:
        _talk(store, "alpha", "beta", "gamma")
        store.turns.edit("turn-0", "delta", 20.0)
        assert _found(store, "alpha") == [] and _found(store, "delta") == ["turn-0"]
        store.turns.archive("thread-1", "turn-1", inclusive=True, at=30.0, why="truncate")
        assert _found(store, "beta") == []
        assert [(hit.turn_id, hit.archived) for hit in store.search.turns("beta", archived=True)] == [("turn-1", True)]
        store.threads.delete("thread-1")
        for word in ("alpha", "beta", "gamma", "delta"):
            assert store.search.turns(word, archived=True) == []
        _talk(store, "alpha again")
        assert _found(store, "alpha") == ["turn-0"]

    def test_what_is_rolled_back_is_not_found(self, store: Store) -> None:
        _talk(store, "alpha")
        try:
            with store.transaction():
                store.turns.add("thread-1", a_turn("turn-9", "alpha too"))
                raise KeyError
        except KeyError:
            pass
        assert _found(store, "alpha") == ["turn-0"]

    def test_odd_texts_are_stored_and_the_words_beside_them_found(self, store: Store) -> None:
        _talk(store, *(f"{text} needle" for text in ODD_TEXTS), "NUL\0here", "sub\x1athere")
        assert len(_found(store, "needle")) == len(ODD_TEXTS)
        assert len(_found(store, "here")) == len(_found(store, "there")) == len(_found(store, "sub")) == 1
        for number in range(len(ODD_TEXTS)):
            store.turns.edit(f"turn-{number}", "plain", 20.0)
        assert _found(store, "needle") == []

    def test_a_huge_text_of_many_words_is_stored_and_found(self, store: Store) -> None:
        huge = " ".join(f"word{number:07}" for number in range(200_000))
        _talk(store, huge)
        assert _found(store, "word0000007") == ["turn-0"]
        store.turns.edit("turn-0", "small", 20.0)
        assert _found(store, "word0000007") == []

    def test_a_search_is_narrowed_by_kind_directory_and_agent_and_paged(self, store: Store) -> None:
        for number, (kind, cwd, agent) in enumerate(
            (("chat", "/a", "claude"), ("job", "/a", "codex"), ("pair", "/b", "claude"))
        ):
            store.threads.create(a_thread(f"thread-{number}", f"n{number}", kind=kind, cwd=cwd, agent=agent))
            store.turns.add(f"thread-{number}", a_turn(f"turn-{number}", "needle"))
        assert _found(store, "needle") == ["turn-2", "turn-1", "turn-0"]
        assert [hit.turn_id for hit in store.search.turns("needle", kind="job")] == ["turn-1"]
        assert [hit.turn_id for hit in store.search.turns("needle", project="/a")] == ["turn-1", "turn-0"]
        assert [hit.turn_id for hit in store.search.turns("needle", agent="claude", project="/")] == [
            "turn-2",
            "turn-0",
        ]
        assert [hit.turn_id for hit in store.search.turns("needle", limit=1, offset=1)] == ["turn-1"]

    def test_a_narrowed_search_finds_the_same_in_few_turns_and_in_many(self, store: Store) -> None:
        store.threads.create(a_thread("thread-0", "few", agent="codex"))
        store.threads.create(a_thread("thread-1", "many", agent="claude"))
        with store.transaction():
            for number in range(FEW_TURNS + 2):
                store.turns.add("thread-1", a_turn(f"turn-{number}", f"needle {number}"))
        for number, text in enumerate(("needle", "pin", "needle again")):
            store.turns.add("thread-0", a_turn(f"few-{number}", text))
        store.turns.archive("thread-0", "few-2", inclusive=True, at=1.0, why="test")
        assert [hit.turn_id for hit in store.search.turns("needle", agent="codex")] == ["few-0"]
        found = [hit.turn_id for hit in store.search.turns("needle", agent="codex", archived=True)]
        assert found == ["few-2", "few-0"]
        assert [
            hit.turn_id for hit in store.search.turns("needle", agent="codex", archived=True, limit=1, offset=1)
        ] == ["few-0"]
        newest = [f"turn-{FEW_TURNS + 1}", f"turn-{FEW_TURNS}"]
        assert [hit.turn_id for hit in store.search.turns("needle", agent="claude", limit=2)] == newest
        assert [hit.turn_id for hit in store.search.turns("3*", agent="claude", limit=1)] == ["turn-399"]
        assert store.search.turns("needle", agent="nobody") == store.search.turns("needle", project="/nowhere") == []

    def test_a_list_is_narrowed_and_sorted_by_age_size_and_cost(self, store: Store) -> None:
        for number, (kind, agent, size, cost) in enumerate(
            (("chat", "claude", 30, 0.5), ("job", "codex", 10, 2.0), ("chat", "claude", 20, 1.0))
        ):
            thread = f"thread-{number}"
            store.threads.create(a_thread(thread, f"n{number}", kind=kind, agent=agent, updated_at=100.0 * number))
            store.turns.add(thread, a_turn(f"turn-{number}", "x" * size))
            store.runs.create(a_run(f"run-{number}", thread, cost_usd=cost))

        def names(**narrowed: object) -> list[str]:
            return [listed.summary.thread.name for listed in store.search.threads(**narrowed)]  # type: ignore[arg-type]

        assert names() == ["n2", "n1", "n0"]
        assert names(sort="size") == ["n0", "n2", "n1"] and names(sort="cost") == ["n1", "n2", "n0"]
        assert names(kind="chat") == ["n2", "n0"] and names(agent="codex") == ["n1"] and names(cwd="/none") == []
        assert names(used_before=150.0) == ["n1", "n0"] and names(used_after=100.0) == ["n2", "n1"]
        assert names(cwd="/project") == names(project="/project/") == names(project="/") == ["n2", "n1", "n0"]
        assert names(cwd="/") == names(project="/proj") == names(project="/project/x") == []
        assert names(limit=1, offset=1) == ["n1"] and names(q="N2") == ["n2"]
        assert names(sort="size", kind="chat", limit=1) == ["n0"]
        first = store.search.threads(sort="size")[0]
        assert (first.chars, first.summary.turns, first.summary.cost_usd, first.summary.live is not None) == (
            30,
            1,
            0.5,
            True,
        )

    def test_size_and_cost_follow_every_change(self, store: Store) -> None:
        _talk(store, "12345", "123")
        store.runs.create(a_run(cost_usd=0.0))

        def now() -> tuple[int, float]:
            [listed] = store.search.threads()
            return listed.chars, listed.summary.cost_usd

        assert now() == (8, 0.0)
        store.turns.edit("turn-0", "1", 20.0)
        assert now() == (4, 0.0)
        store.turns.archive("thread-1", "turn-1", inclusive=True, at=30.0, why="truncate")
        assert now() == (1, 0.0)
        store.runs.update("run-1", cost_usd=0.25)
        assert now() == (1, 0.25)


def _talk(store: Store, *texts: str) -> None:
    store.threads.create(a_thread())
    for number, text in enumerate(texts):
        store.turns.add("thread-1", a_turn(f"turn-{number}", text))


def _found(store: Store, query: str) -> list[str]:
    return [hit.turn_id for hit in store.search.turns(query)]
