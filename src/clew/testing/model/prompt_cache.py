"""What a request to the Messages API would cost, by the documented rules of its prompt cache.

Pure accounting: no network, no clock of its own. `PromptCache.charge(body)` takes a request body as a client sent it
and returns how many of its tokens are read from the cache, written to it, or charged in full.

The rules (Anthropic, "Prompt caching"):

1. A prompt is a sequence of blocks: the tools, then the system prompt, then the messages.
2. A block with `cache_control` is a breakpoint. A request has at most four, and a breakpoint with a lifetime of one
   hour may not follow one of five minutes. A `cache_control` on the request itself marks the last block.
3. A served request writes one entry at each breakpoint: the hash of everything up to and including that block.
   Nothing is written at any other place.
4. A read looks for such entries: at the breakpoint, then block by block backwards, 20 positions in all with the
   breakpoint as the first. A run of `tool_use` blocks is one position; so is a run of `tool_result` blocks.
5. The longest entry found is the hit. The tokens up to the hit are read. From there, tokens up to the last breakpoint
   of one hour are written for an hour, and those up to the last breakpoint for five minutes; the rest is plain input.
6. An entry lives five minutes or one hour. Each request that reads it restarts that time. Each model has its own cache.
7. A prefix shorter than the model's minimum is never cached, without a notice.
8. Another tool choice or thinking budget invalidates the messages, but neither the tools nor the system prompt.

Tokens are estimated as four bytes of JSON each: the same text always counts the same, which is enough to compare.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MAX_BREAKPOINTS: Final = 4
LOOKBACK_POSITIONS: Final = 20
LIFE_S: Final[Mapping[str, float]] = {"5m": 300.0, "1h": 3600.0}

# Prices relative to one ordinary input token.
INPUT_COST: Final = 1.0
WRITE_5M_COST: Final = 1.25
WRITE_1H_COST: Final = 2.0
READ_COST: Final = 0.1
OUTPUT_COST: Final = 5.0

# The Claude CLI sends this as its first system block. It is for billing, and depends on the first prompt's text: if it
# counted as prompt, no two conversations could share even the system prompt.
IGNORED_SYSTEM_BLOCKS: Final = ("x-anthropic-billing-header:",)

_BYTES_PER_TOKEN: Final = 4
_RUN_TYPES: Final = frozenset({"tool_use", "tool_result"})

Json = Mapping[str, Any]


class BadBreakpoints(ValueError):
    """The request's `cache_control` marks break a rule; the message is what the API would send with its 400."""


class Clock:
    """A clock that tests advance, so that ten minutes between two turns take no time.

    By default it stays at 0. With `time.time` as its base it runs in real time, and `advance` adds to that.
    """

    def __init__(self, base: Callable[[], float] = lambda: 0.0) -> None:
        self._base = base
        self._advanced_s = 0.0

    def now(self) -> float:
        return self._base() + self._advanced_s

    def advance(self, seconds: float) -> None:
        self._advanced_s += seconds


@dataclass(frozen=True)
class CacheAccount:
    """Where the tokens of one prompt came from. Accounts add up: `sum(accounts, CacheAccount())`."""

    input_tokens: int = 0  # after the last breakpoint, or not cacheable: full price
    read_tokens: int = 0  # found in the cache
    write_5m_tokens: int = 0  # stored for five minutes
    write_1h_tokens: int = 0  # stored for an hour

    @property
    def prompt_tokens(self) -> int:
        return self.input_tokens + self.read_tokens + self.write_5m_tokens + self.write_1h_tokens

    @property
    def cost_units(self) -> float:
        """The price of the prompt, in ordinary input tokens. Answers cost extra (`output_cost_units`)."""
        return (
            self.input_tokens * INPUT_COST
            + self.read_tokens * READ_COST
            + self.write_5m_tokens * WRITE_5M_COST
            + self.write_1h_tokens * WRITE_1H_COST
        )

    def usage(self, output_tokens: int) -> dict[str, Any]:
        """The `usage` object of the API's answer."""
        return {
            "input_tokens": self.input_tokens,
            "cache_read_input_tokens": self.read_tokens,
            "cache_creation_input_tokens": self.write_5m_tokens + self.write_1h_tokens,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.write_5m_tokens,
                "ephemeral_1h_input_tokens": self.write_1h_tokens,
            },
            "output_tokens": output_tokens,
        }

    def __add__(self, other: CacheAccount) -> CacheAccount:
        return CacheAccount(
            self.input_tokens + other.input_tokens,
            self.read_tokens + other.read_tokens,
            self.write_5m_tokens + other.write_5m_tokens,
            self.write_1h_tokens + other.write_1h_tokens,
        )


def output_cost_units(output_tokens: int) -> float:
    return output_tokens * OUTPUT_COST


@dataclass(frozen=True)
class Block:
    """One block of the prompt, with the key of a cache entry that would end here."""

    kind: str  # "text", "tool_use", … ; "tool" for a tool's definition
    prefix_hash: str  # of this block and all before it
    prefix_tokens: int  # of this block and all before it
    life: str | None  # "5m" or "1h" at a breakpoint, None elsewhere


@dataclass
class _Entry:
    life: str
    expires_at: float


class PromptCache:
    """The cache of one API: its entries, and when they expire."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        minimum_tokens: int = 1024,  # differs per model, 512 to 4096; 1024 is the most common
        ignored: Sequence[str] = IGNORED_SYSTEM_BLOCKS,  # system blocks with these beginnings do not count as prompt
    ) -> None:
        self.clock = clock if clock is not None else Clock()
        self.minimum_tokens = minimum_tokens
        self._ignored = tuple(ignored)
        self._entries: dict[tuple[str, str], _Entry] = {}

    def charge(self, body: Json) -> CacheAccount:
        """Accounts for a served request: reads the entries that exist, renews them, and writes new ones.

        Raises BadBreakpoints, and then changes nothing. Do not call it for a request that the API refuses.
        """
        blocks = read_blocks(body, self._ignored)
        marks = check_breakpoints(blocks)
        model = str(body.get("model", ""))
        now = self.clock.now()
        hit_tokens = 0
        for mark in marks:
            found = self._look_back(model, blocks, mark, now)
            if found is not None:
                entry = self._entries[model, blocks[found].prefix_hash]
                entry.expires_at = now + LIFE_S[entry.life]
                hit_tokens = max(hit_tokens, blocks[found].prefix_tokens)
        cacheable = [blocks[mark] for mark in marks if blocks[mark].prefix_tokens >= self.minimum_tokens]
        for block in cacheable:
            self._write(model, block, now)
        total = blocks[-1].prefix_tokens if blocks else 0
        return _bill(cacheable, hit_tokens, total)

    def _look_back(self, model: str, blocks: Sequence[Block], mark: int, now: float) -> int | None:
        for position, index in _positions_back(blocks, mark):
            if position > LOOKBACK_POSITIONS:
                return None
            entry = self._entries.get((model, blocks[index].prefix_hash))
            if entry is not None and now < entry.expires_at:
                return index
        return None

    def _write(self, model: str, block: Block, now: float) -> None:
        key = (model, block.prefix_hash)
        known = self._entries.get(key)
        if known is not None and now < known.expires_at:
            return  # it exists: `charge` has renewed it, and its `life` does not change
        assert block.life is not None  # only breakpoints are written
        self._entries[key] = _Entry(block.life, now + LIFE_S[block.life])


def count_tokens(body: Json) -> int:
    """The estimated size of the whole prompt."""
    blocks = read_blocks(body)
    return blocks[-1].prefix_tokens if blocks else 0


def estimate_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)


def read_blocks(body: Json, ignored: Sequence[str] = IGNORED_SYSTEM_BLOCKS) -> list[Block]:
    """The prompt as a sequence of blocks: tools, system, messages."""
    digest = hashlib.sha256()
    tokens = 0
    blocks: list[Block] = []
    rows = list(_rows(body, tuple(ignored)))
    for number, (place, raw) in enumerate(rows):
        text = _canonical(raw)
        digest.update(f"{place}\x00{text}\x01".encode("utf-8", "surrogatepass"))
        tokens += estimate_tokens(text)
        control = raw.get("cache_control")
        if not control and number == len(rows) - 1:
            control = body.get("cache_control")
        life = str(control.get("ttl", "5m")) if isinstance(control, Mapping) else None
        kind = "tool" if place == "tools" else str(raw.get("type", "text"))
        blocks.append(Block(kind, digest.hexdigest(), tokens, life))
    return blocks


def check_breakpoints(blocks: Sequence[Block]) -> list[int]:
    """The indexes of the breakpoints. Raises BadBreakpoints with the API's text."""
    marks = [index for index, block in enumerate(blocks) if block.life is not None]
    if len(marks) > MAX_BREAKPOINTS:
        raise BadBreakpoints(
            f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {len(marks)}."
        )
    lives = [blocks[mark].life for mark in marks]
    if any(life not in LIFE_S for life in lives):
        raise BadBreakpoints("cache_control.ttl: Input should be '5m' or '1h'")
    if "5m" in lives and "1h" in lives[lives.index("5m") :]:
        raise BadBreakpoints(
            "cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
            "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        )
    return marks


def _rows(body: Json, ignored: tuple[str, ...]) -> Iterator[tuple[str, Json]]:
    for tool in body.get("tools") or ():
        yield "tools", tool
    for block in _as_blocks(body.get("system")):
        if not str(block.get("text", "")).startswith(ignored):
            yield "system", block
    # Rule 8. Only these two fields of `thinking` change the prompt; how thinking is displayed does not.
    thinking = body.get("thinking") or {}
    settings = [body.get("tool_choice"), thinking.get("type"), thinking.get("budget_tokens")]
    for message in body.get("messages") or ():
        # Adjacent messages of one role are one turn to the API, so the role counts and message boundaries do not.
        place = json.dumps([message.get("role"), settings])
        for block in _as_blocks(message.get("content")):
            yield place, block


def _as_blocks(content: Any) -> Sequence[Json]:
    if not content:
        return ()
    return ({"type": "text", "text": content},) if isinstance(content, str) else content


def _canonical(block: Json) -> str:
    """A block's JSON without `cache_control`. The order of keys matters only in nested objects, such as a tool's input,
    and not in the parts of `content`."""
    plain = {key: block[key] for key in sorted(block) if key != "cache_control"}
    inner = plain.get("content")
    if isinstance(inner, list):
        plain["content"] = [
            {key: part[key] for key in sorted(part) if key != "cache_control"} if isinstance(part, dict) else part
            for part in inner
        ]
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _positions_back(blocks: Sequence[Block], mark: int) -> Iterator[tuple[int, int]]:
    """The blocks backwards from a breakpoint: (position counted from 1, index of the block)."""
    position = 1
    for index in range(mark, -1, -1):
        yield position, index
        kind = blocks[index].kind
        same_run = index > 0 and kind in _RUN_TYPES and blocks[index - 1].kind == kind
        position += 0 if same_run else 1


def _bill(cacheable: Sequence[Block], hit_tokens: int, total_tokens: int) -> CacheAccount:
    hour_end = max((block.prefix_tokens for block in cacheable if block.life == "1h"), default=0)
    hour_end = max(hour_end, hit_tokens)
    write_end = max((block.prefix_tokens for block in cacheable), default=0)
    write_end = max(write_end, hour_end)
    return CacheAccount(
        input_tokens=total_tokens - write_end,
        read_tokens=hit_tokens,
        write_5m_tokens=write_end - hour_end,
        write_1h_tokens=hour_end - hit_tokens,
    )
