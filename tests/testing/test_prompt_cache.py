"""The rules of the prompt cache, each tested with the smallest prompts that show it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from clew.testing.model.prompt_cache import (
    BadBreakpoints,
    CacheAccount,
    Clock,
    PromptCache,
    count_tokens,
    output_cost_units,
    read_blocks,
)

Block = dict[str, Any]


def text(words: str, ttl: str | None = None) -> Block:
    """A block of text; with a `ttl` it is a breakpoint."""
    block: Block = {"type": "text", "text": words}
    if ttl is not None:
        block["cache_control"] = {"type": "ephemeral", "ttl": ttl}
    return block


def prompt(*blocks: Block, model: str = "sonnet", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": list(blocks)}], **more}


def conversation(length: int, *, marks: tuple[int, ...] = (), ttl: str = "5m") -> dict[str, Any]:
    """A prompt with that many blocks, counted from 1. It has breakpoints at `marks` and always at the last block."""
    places = {*marks, length}
    return prompt(*(text(f"block {n}", ttl if n in places else None) for n in range(1, length + 1)))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> PromptCache:
    return PromptCache(clock, minimum_tokens=0)


def tokens(body: dict[str, Any]) -> int:
    return count_tokens(body)


def test_the_first_request_writes_up_to_the_breakpoint_and_pays_the_rest_in_full(cache: PromptCache) -> None:
    body = prompt(text("kept", "5m"), text("not kept"))
    account = cache.charge(body)
    kept = tokens(prompt(text("kept")))
    assert account == CacheAccount(input_tokens=tokens(body) - kept, write_5m_tokens=kept)


def test_a_repeated_request_is_read_from_the_cache(cache: PromptCache) -> None:
    body = conversation(3)
    cache.charge(body)
    assert cache.charge(body) == CacheAccount(read_tokens=tokens(body))


def test_a_longer_conversation_reads_the_old_part_and_writes_the_new(cache: PromptCache) -> None:
    cache.charge(conversation(10))
    old, new = tokens(conversation(10)), tokens(conversation(15))
    assert cache.charge(conversation(15)) == CacheAccount(read_tokens=old, write_5m_tokens=new - old)


def test_without_a_breakpoint_nothing_is_cached(cache: PromptCache) -> None:
    body = prompt(text("a"), text("b"))
    cache.charge(body)
    assert cache.charge(body) == CacheAccount(input_tokens=tokens(body))


def test_a_breakpoint_on_the_request_marks_its_last_block(cache: PromptCache) -> None:
    body = prompt(text("a"), text("b"), cache_control={"type": "ephemeral"})
    assert cache.charge(body).write_5m_tokens == tokens(body)
    assert cache.charge(body).read_tokens == tokens(body)


class TestLookBack:
    def test_an_entry_at_the_twentieth_position_is_found(self, cache: PromptCache) -> None:
        cache.charge(conversation(15))
        assert cache.charge(conversation(34)).read_tokens == tokens(conversation(15))

    def test_an_entry_at_the_twenty_first_position_is_not(self, cache: PromptCache) -> None:
        cache.charge(conversation(15))
        assert cache.charge(conversation(35)).read_tokens == 0

    def test_a_second_breakpoint_opens_a_second_window(self, cache: PromptCache) -> None:
        cache.charge(conversation(15))
        assert cache.charge(conversation(35, marks=(15,))).read_tokens == tokens(conversation(15))

    def test_a_read_finds_written_entries_and_not_merely_equal_blocks(self, cache: PromptCache) -> None:
        cache.charge(prompt(text("same"), text("now 1", "5m")))
        assert cache.charge(prompt(text("same"), text("now 2", "5m"))).read_tokens == 0

    def test_a_run_of_tool_calls_or_results_is_one_position(self, cache: PromptCache) -> None:
        asked = [{"role": "user", "content": [text("go", "5m")]}]
        cache.charge({"model": "sonnet", "messages": asked})
        calls = [{"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {}} for n in range(30)]
        results: list[Block] = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "x"} for n in range(30)]
        results[-1]["cache_control"] = {"type": "ephemeral"}
        grown = [
            {"role": "user", "content": [text("go")]},
            {"role": "assistant", "content": calls},
            {"role": "user", "content": results},
        ]
        assert cache.charge({"model": "sonnet", "messages": grown}).read_tokens == tokens(prompt(text("go")))


class TestLife:
    @pytest.mark.parametrize(("ttl", "life_s"), [("5m", 300), ("1h", 3600)])
    def test_an_entry_lives_as_long_as_its_breakpoint_says(
        self, cache: PromptCache, clock: Clock, ttl: str, life_s: float
    ) -> None:
        body = conversation(3, ttl=ttl)
        cache.charge(body)
        clock.advance(life_s - 1)
        assert cache.charge(body).read_tokens == tokens(body)
        clock.advance(life_s)
        assert cache.charge(body).read_tokens == 0

    def test_each_read_restarts_the_lifetime_of_an_entry(self, cache: PromptCache, clock: Clock) -> None:
        body = conversation(3)
        cache.charge(body)
        for _ in range(5):
            clock.advance(200)
            assert cache.charge(body).read_tokens == tokens(body)

    def test_a_read_of_the_whole_renews_the_marked_parts_too(self, cache: PromptCache, clock: Clock) -> None:
        cache.charge(conversation(8, marks=(4,)))
        clock.advance(200)
        cache.charge(conversation(8, marks=(4,)))
        clock.advance(200)
        assert cache.charge(conversation(4)).read_tokens == tokens(conversation(4))

    def test_the_short_lifetime_is_the_default(self, cache: PromptCache) -> None:
        body = prompt({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}})
        assert cache.charge(body).write_5m_tokens == tokens(body)


class TestMixedLives:
    def test_writes_are_split_at_the_last_breakpoint_of_one_hour(self, cache: PromptCache) -> None:
        body = prompt(text("a", "1h"), text("b", "5m"), text("c"))
        hour, both, all_of_it = (tokens(prompt(*map(text, "abc"[:n]))) for n in (1, 2, 3))
        assert cache.charge(body) == CacheAccount(
            input_tokens=all_of_it - both, write_1h_tokens=hour, write_5m_tokens=both - hour
        )

    def test_the_hour_outlives_the_five_minutes(self, cache: PromptCache, clock: Clock) -> None:
        body = prompt(text("a", "1h"), text("b", "5m"))
        cache.charge(body)
        clock.advance(600)
        account = cache.charge(body)
        hour = tokens(prompt(text("a")))
        assert account == CacheAccount(read_tokens=hour, write_5m_tokens=tokens(body) - hour)

    def test_an_hour_after_five_minutes_is_refused_and_changes_nothing(self, cache: PromptCache) -> None:
        with pytest.raises(BadBreakpoints, match="must not come after"):
            cache.charge(prompt(text("a", "5m"), text("b", "1h")))
        assert cache.charge(prompt(text("a", "5m"))).read_tokens == 0


def test_a_fifth_breakpoint_is_refused(cache: PromptCache) -> None:
    cache.charge(conversation(8, marks=(1, 2, 3)))
    with pytest.raises(BadBreakpoints, match=r"maximum of 4 blocks .* Found 5"):
        cache.charge(conversation(8, marks=(1, 2, 3, 4)))


def test_an_unknown_lifetime_is_refused(cache: PromptCache) -> None:
    with pytest.raises(BadBreakpoints, match="'5m' or '1h'"):
        cache.charge(prompt(text("a", "2d")))


def test_models_do_not_share_a_cache(cache: PromptCache) -> None:
    cache.charge(prompt(text("a", "5m"), model="sonnet"))
    assert cache.charge(prompt(text("a", "5m"), model="opus")).read_tokens == 0
    assert cache.charge(prompt(text("a", "5m"), model="sonnet")).read_tokens > 0


def test_a_prefix_below_the_minimum_is_ordinary_input(clock: Clock) -> None:
    body = prompt(text("x" * 4000, "5m"))
    size = tokens(body)
    for minimum, expected in [(size + 1, CacheAccount(input_tokens=size)), (size, CacheAccount(read_tokens=size))]:
        cache = PromptCache(clock, minimum_tokens=minimum)
        cache.charge(body)
        assert cache.charge(body) == expected


def test_the_default_minimum_is_1024_tokens() -> None:
    assert PromptCache().minimum_tokens == 1024


class TestPrefix:
    def full(self) -> dict[str, Any]:
        return {
            "model": "sonnet",
            "messages": [{"role": "user", "content": [text("hi", "5m")]}],
            "system": [text("be kind", "5m")],
            "tools": [{"name": "Read", "input_schema": {}, "cache_control": {"type": "ephemeral"}}],
        }

    def test_the_prefix_is_tools_then_system_then_messages(self) -> None:
        assert [block.kind for block in read_blocks(self.full())] == ["tool", "text", "text"]

    @pytest.mark.parametrize(("changed", "still_read"), [("tools", 0), ("system", 1), ("messages", 2)])
    def test_a_change_invalidates_its_own_level_and_what_follows(
        self, cache: PromptCache, changed: str, still_read: int
    ) -> None:
        cache.charge(self.full())
        body = self.full()
        if changed == "tools":
            body["tools"][0]["name"] = "Write"
        elif changed == "system":
            body["system"][0]["text"] = "be brief"
        else:
            body["messages"][0]["content"][0]["text"] = "ho"
        sizes = [0, *(block.prefix_tokens for block in read_blocks(self.full()))]
        assert cache.charge(body).read_tokens == sizes[still_read]

    @pytest.mark.parametrize("setting", [{"tool_choice": {"type": "any"}}, {"thinking": {"type": "disabled"}}])
    def test_settings_of_the_turn_invalidate_only_the_messages(
        self, cache: PromptCache, setting: dict[str, Any]
    ) -> None:
        cache.charge(self.full())
        assert cache.charge(self.full() | setting).read_tokens == read_blocks(self.full())[1].prefix_tokens

    def test_marks_are_not_part_of_the_prefix(self) -> None:
        bare = copy.deepcopy(self.full())
        for block in (bare["tools"][0], bare["system"][0], bare["messages"][0]["content"][0]):
            del block["cache_control"]
        assert [b.prefix_hash for b in read_blocks(bare)] == [b.prefix_hash for b in read_blocks(self.full())]

    def test_a_string_is_a_block_of_text_and_neighbours_of_one_role_are_one_turn(self) -> None:
        short = {"system": "s", "messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}
        long = {"system": [text("s")], "messages": [{"role": "user", "content": [text("a"), text("b")]}]}
        assert read_blocks(short) == read_blocks(long)

    def test_the_role_is_part_of_the_prefix(self) -> None:
        user, assistant = ({"messages": [{"role": role, "content": "a"}]} for role in ("user", "assistant"))
        assert read_blocks(user) != read_blocks(assistant)

    def test_the_clients_billing_note_is_not_part_of_the_prefix(self) -> None:
        noted = [text("x-anthropic-billing-header: cc_version=1.2.3.abc;"), text("be kind")]
        assert read_blocks({"system": noted}) == read_blocks({"system": [text("be kind")]})


class TestAccount:
    def test_cost_is_in_ordinary_input_tokens(self) -> None:
        account = CacheAccount(input_tokens=100, read_tokens=1000, write_5m_tokens=40, write_1h_tokens=10)
        assert account.cost_units == pytest.approx(100 + 100 + 50 + 20)
        assert output_cost_units(10) == 50

    def test_usage_has_the_fields_of_the_api(self) -> None:
        assert CacheAccount(1, 2, 3, 4).usage(output_tokens=5) == {
            "input_tokens": 1,
            "cache_read_input_tokens": 2,
            "cache_creation_input_tokens": 7,
            "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
            "output_tokens": 5,
        }

    def test_accounts_can_be_summed(self) -> None:
        assert sum([CacheAccount(1, 2, 3, 4)] * 2, CacheAccount()) == CacheAccount(2, 4, 6, 8)

    def test_every_token_of_the_prompt_is_accounted_for_once(self, cache: PromptCache) -> None:
        for length in (1, 3, 30, 60):
            body = conversation(length)
            assert cache.charge(body).prompt_tokens == tokens(body)
