"""Turns that were made outside Clew, in the plain CLI of an agent: they become turns of the thread.

Rules
1. Each turn comes in once. It is recognised by the agent's own ids of its messages.
2. It comes in where its time is: after the rounds of the thread that began before it, and never before a turn that its
   session already held. A round of the thread is not split.
3. Each prompt with its answer gets a run, marked as outside, whose events hold its tool calls. So what shows, compares
   or exports the work of a run does it for outside turns too.
4. Afterwards the session's pin has absorbed them. If the thread continued meanwhile, the next turn sends the session
   what it lacks.
5. Planning changes nothing (`Arrival`): a preview, an explanation and a run use the same plan, and only a run, or a
   person who asks for it, stores it, under the thread's lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

from clew.agents.adapter import UUID, Adapter, SessionEntry
from clew.core.costs.usage import NO_USAGE
from clew.core.history import Absorbed, Role, Turn
from clew.core.ids import PinId, RunId, SessionId, TurnId
from clew.core.images import outside_note
from clew.core.outcome import Outcome
from clew.core.pins import Observed, Pin, PinState, has_diverged, reconcile
from clew.core.record import Record, replace
from clew.core.runs.events import Event, MessageSaid, RunEnded, ToolFinished, ToolStarted
from clew.core.runs.run import Run, RunStatus
from clew.core.session import SessionState, SessionTurn, SubAgent
from clew.core.thread import Thread, is_safe_argument
from clew.engine.finish.prices import price
from clew.engine.sessions.observation import observe
from clew.engine.settings import RuntimeContext
from clew.store.store import Store

AdapterOf = Callable[[str], Adapter | None]

NO_PINS: Mapping[PinId, Observed] = MappingProxyType({})
MOVED = frozenset({SessionState.GREW, SessionState.COMPACTED, SessionState.BRANCHED})
CUT_OFF = "The turn was interrupted outside Clew."


class OutsideRound(Record):
    """A prompt that was asked outside Clew and its answer, as they will be stored."""

    turns: tuple[Turn, ...]  # the prompt, the answer, or both
    run: Run
    events: tuple[tuple[int, float, Event], ...]


class Arrival(Record):
    """The turns that come in, the thread's history with them, and the pins that have absorbed them."""

    history: Sequence[Turn]
    rounds: tuple[OutsideRound, ...] = ()
    pins: tuple[Pin, ...] = ()  # those that changed
    observed: Mapping[PinId, Observed] = NO_PINS  # what the files show, of the sessions that were looked at
    compacted: tuple[SessionId, ...] = ()  # sessions that were compacted since our last turn

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(chain.from_iterable(each.turns for each in self.rounds))


def arrival(
    store: Store,
    thread: Thread,
    pins: Sequence[Pin],
    adapter_of: AdapterOf,
    context: RuntimeContext,
    history: Sequence[Turn] | None = None,
) -> Arrival:
    """What the sessions of the thread hold that the thread does not have. Reads files that have changed, and changes
    nothing. The pin of a session whose last attempt had no success is settled first.

    `history`: the thread's, if the caller has read it.
    """
    found = Arrival(store.turns.history(thread.id) if history is None else history)
    for pin in _newest(pins, adapter_of):
        adapter = adapter_of(pin.agent)
        if adapter is not None and _is_read(pin):
            observed = observe(adapter, pin)
            settled = reconcile(pin, observed, found.history)
            found = with_outside(store, found, settled, observed, context)
            if settled != pin and all(other.id != pin.id for other in found.pins):
                found = replace(found, pins=(*found.pins, settled))
    return found


def has_news(pins: Sequence[Pin], adapter_of: AdapterOf) -> bool:
    """Whether `arrival` would find anything. It is cheap if nothing has changed: it reads no turns, and the pins need
    not know what they absorbed."""
    return any(_is_read(pin) and _has_moved(pin, adapter_of) for pin in _newest(pins, adapter_of))


def left_behind(pins: Sequence[Pin], adapter_of: AdapterOf) -> tuple[SessionId, ...]:
    """The sessions that the thread does not use any more, and that were continued outside Clew since."""
    current = {pin.id for pin in _newest(pins, adapter_of)}
    left = (pin for pin in pins if pin.id not in current and pin.state is not PinState.RETIRED)
    return tuple(pin.session_id for pin in left if _is_read(pin) and _has_moved(pin, adapter_of))


def _has_moved(pin: Pin, adapter_of: AdapterOf) -> bool:
    adapter = adapter_of(pin.agent)
    return adapter is not None and observe(adapter, pin).state in MOVED


def _is_read(pin: Pin) -> bool:
    return (pin.mark is not None or pin.pending is not None) and pin.borrowed_at is None


def newest_pins(pins: Sequence[Pin]) -> list[Pin]:
    """For each agent and model, the pin whose session would be continued, if it has a file that we have read."""
    return [pin for pin in _newest(pins) if pin.mark is not None and pin.borrowed_at is None]


def _newest(pins: Sequence[Pin], adapter_of: AdapterOf | None = None) -> list[Pin]:
    """`adapter_of`: a session that never came into being does not hide an older one."""
    found: dict[tuple[str, str], Pin] = {}
    for pin in pins:
        is_first = (pin.agent, pin.model) not in found
        if pin.state is not PinState.RETIRED and (is_first or not _never_began(pin, adapter_of)):
            found[pin.agent, pin.model] = pin
    return [*found.values()]


def _never_began(pin: Pin, adapter_of: AdapterOf | None) -> bool:
    adapter = adapter_of(pin.agent) if adapter_of is not None else None
    if adapter is None or pin.state is not PinState.PROVISIONAL or pin.borrowed_at is not None:
        return False
    if pin.mark is not None and pin.mark.size_bytes:
        return False
    return observe(adapter, pin).state is SessionState.GONE


def with_outside(store: Store, before: Arrival, pin: Pin, observed: Observed, context: RuntimeContext) -> Arrival:
    """The arrival with what this session holds in addition. `pin` is settled, as far as the file allows it."""
    before = replace(before, observed={**before.observed, pin.id: followed(observed)})
    if observed.state not in (SessionState.SAME, SessionState.GREW, SessionState.COMPACTED):
        return before
    moved = _moved(pin, observed)
    new = new_turns(store, before, pin, observed)
    made = outside_rounds(store, pin, new, _spent(pin, observed), context)
    if moved == pin and not made:
        return before
    absorbed = [Absorbed.of(turn) for each in made for turn in each.turns]
    if pin.pending is None:  # else it is not known what comes before these turns in the session
        moved = replace(moved, absorbed=(*pin.absorbed, *absorbed))
        if pin.state is PinState.PROVISIONAL and any(each.run.status is RunStatus.ANSWERED for each in made):
            moved = replace(moved, state=PinState.GOOD)  # it was begun in a terminal, and its file has an answer
        if observed.cost_total_usd is None:  # a later total will contain what is only estimated here
            estimated = sum(each.run.cost_usd for each in made)
            moved = replace(moved, cost_total_usd=moved.cost_total_usd + estimated)
    return replace(
        before,
        history=merged(before.history, made, pin),
        rounds=(*before.rounds, *made),
        pins=(*(other for other in before.pins if other.id != pin.id), moved),
        compacted=(*before.compacted, pin.session_id) if observed.compacted else before.compacted,
    )


def with_beside(store: Store, before: Arrival, pin: Pin, observed: Observed, context: RuntimeContext) -> Arrival:
    """The arrival with the turns that were made during a run of ours. The session has lost them, so the pin has not
    absorbed them, and the next turn sends them."""
    known = _message_ids(store, pin.thread_id, before) if observed.beside else frozenset()
    made = outside_rounds(store, pin, [turn for turn in observed.beside if not _ids(turn) & known], None, context)
    return replace(before, history=merged(before.history, made, pin), rounds=(*before.rounds, *made))


def new_turns(store: Store, before: Arrival, pin: Pin, observed: Observed) -> list[SessionTurn]:
    """The outside turns of the session that the thread never had, and that do not come in already."""
    turns = (*observed.before, *observed.outside)
    known = _message_ids(store, pin.thread_id, before) if turns else frozenset()
    # The mark of a pin that is not settled stays, so a turn that could not be recognised would come in again.
    return [turn for turn in turns if not _ids(turn) & known and (pin.pending is None or _ids(turn))]


def _moved(pin: Pin, observed: Observed) -> Pin:
    """The pin after its session has been read up to its end. One that is not settled does not move."""
    if pin.pending is not None or pin.mark is None or observed.mark is None:
        return pin
    total = observed.cost_total_usd
    return replace(
        pin,
        mark=observed.mark,
        summarised=len(pin.absorbed) + observed.summarised if observed.compacted else pin.summarised,
        cost_total_usd=pin.cost_total_usd if total is None else max(total, pin.cost_total_usd),
    )


def followed(observed: Observed) -> Observed:
    """What was observed, after the outside turns have come in."""
    if observed.state is SessionState.BRANCHED or not has_diverged(observed):
        return observed
    return replace(observed, state=SessionState.SAME, before=(), outside=())


def _message_ids(store: Store, thread_id: str, before: Arrival) -> frozenset[str]:
    """The agents' own ids of all turns of the thread, archived or not, and of those that come in."""
    turns = (*(each.turn for each in store.turns.all(thread_id)), *before.turns)
    return frozenset(turn.message_id for turn in turns if turn.message_id)


def _ids(turn: SessionTurn) -> set[str]:
    entries = (*((turn.prompt,) if turn.prompt is not None else ()), *turn.answers)
    return {each for entry in entries for each in (_own_id(entry), entry.end_id) if each is not None}


def _own_id(entry: SessionEntry) -> str | None:
    """The id, if the agent made it. Codex makes none for a prompt: ours is made from the text, which may come twice."""
    return entry.id if entry.role is Role.ASSISTANT or UUID.match(entry.id) else None


def _spent(pin: Pin, observed: Observed) -> float | None:
    """What the turns that were made outside cost together. None: the file does not tell.

    The total before them is that in the file. The pin knows a higher one while the process that made our last turn is
    kept: it writes its total only when it ends, and whoever continues the session meanwhile does not know it.
    """
    total, before = observed.cost_total_usd, observed.cost_before_usd
    if total is None:
        return None
    spent = total - (pin.cost_total_usd if before is None else before)
    return spent if spent >= 0 else None


def outside_rounds(
    store: Store, pin: Pin, turns: Sequence[SessionTurn], spent_usd: float | None, context: RuntimeContext
) -> tuple[OutsideRound, ...]:
    """The turns as they will be stored. `spent_usd` is what they cost together, if the agent says so."""
    costs = _costs(store, pin, turns, spent_usd)
    return tuple(_round(pin, turn, cost_usd, context) for turn, cost_usd in zip(turns, costs, strict=True))


def _costs(store: Store, pin: Pin, turns: Sequence[SessionTurn], spent_usd: float | None) -> list[float]:
    """What each turn cost: its share of what they cost together, or an estimate."""
    units = sum(turn.usage.units for turn in turns)
    if spent_usd is None or not units:
        return [price(store, pin.agent, _model(pin, turn), turn.usage) for turn in turns]
    return [spent_usd * turn.usage.units / units for turn in turns]


def _model(pin: Pin, turn: SessionTurn) -> str:
    return turn.model if turn.model and is_safe_argument(turn.model) else pin.model


def _round(pin: Pin, turn: SessionTurn, cost_usd: float, context: RuntimeContext) -> OutsideRound:
    now = context.clock()
    began_at = min(turn.began_at or now, now)
    ended_at = max(began_at, min(turn.ended_at or now, now))
    run = _run(pin, turn, cost_usd, began_at, ended_at, context)
    ended = RunEnded(run.status, str(run.outcome), run.usage, cost_usd, run.error or "")
    timed = [*_events(turn), (ended_at, ended)]
    events = tuple((seq, at if at is not None else ended_at, event) for seq, (at, event) in enumerate(timed, start=1))
    return OutsideRound(tuple(_turns(turn, run)), run, events)


def _turns(turn: SessionTurn, run: Run) -> Iterator[Turn]:
    """The prompt and the answer, as far as the session has them."""
    common = Turn(
        run.prompt_turn_id, Role.USER, run.prompt, run.agent, run.model, run_id=run.id, created_at=run.created_at
    )
    if turn.prompt is not None:
        yield replace(common, message_id=_own_id(turn.prompt), outside=True)
    if run.answer_turn_id is not None:
        yield replace(
            common,
            id=run.answer_turn_id,
            role=Role.ASSISTANT,
            text=turn.text,
            partial=not turn.is_complete,
            message_id=turn.end_id or turn.answers[-1].id,
            created_at=run.ended_at or run.created_at,
            outside=True,
        )


def prompt_text(prompt: SessionEntry) -> str:
    """The text of a prompt that was asked outside Clew. Its images stay in the session; the text says that there were
    some."""
    return "\n\n".join(part for part in (prompt.text, outside_note(prompt.images) if prompt.images else "") if part)


def _run(
    pin: Pin, turn: SessionTurn, cost_usd: float, began_at: float, ended_at: float, context: RuntimeContext
) -> Run:
    measured = [entry.usage for entry in turn.answers if entry.usage != NO_USAGE]
    done = turn.is_complete
    return Run(
        id=RunId(context.new_id()),
        thread_id=pin.thread_id,
        prompt_turn_id=TurnId(context.new_id()),
        prompt=prompt_text(turn.prompt) if turn.prompt is not None else "",
        agent=pin.agent,
        model=_model(pin, turn) or None,
        status=RunStatus.ANSWERED if done else RunStatus.INTERRUPTED,
        answer_turn_id=TurnId(context.new_id()) if turn.answers else None,
        session_id=pin.session_id,
        session_resumed=True,
        outcome=Outcome.SUCCESS if done else Outcome.KILLED,
        error=None if done else CUT_OFF,
        usage=turn.usage,
        cost_usd=cost_usd,
        context_tokens=measured[-1].shown_tokens + measured[-1].output_tokens if measured else None,
        outside=True,
        created_at=began_at,
        started_at=began_at,
        ended_at=ended_at,
    )


def _events(turn: SessionTurn) -> Iterator[tuple[float | None, Event]]:
    for entry in turn.answers:
        if entry.text:
            yield entry.at, MessageSaid(entry.text, entry.id)
        for call in entry.calls:
            yield entry.at, ToolStarted(call.tool_id, call.name, call.input)
            for helper in turn.subagents:
                if helper.tool_id == call.tool_id:
                    yield from ((entry.at, event) for event in _helper_events(helper))
            if call.output is not None:
                yield entry.at, ToolFinished(call.tool_id, call.is_error, call.output, ran=call.ran)


def _helper_events(helper: SubAgent) -> Iterator[Event]:
    """The tool calls of a subagent: they may have edited files."""
    for call in helper.calls:
        yield ToolStarted(call.tool_id, call.name, call.input)
        if call.output is not None:
            yield ToolFinished(call.tool_id, call.is_error, call.output, ran=call.ran)


def merged(history: Sequence[Turn], made: Sequence[OutsideRound], pin: Pin) -> Sequence[Turn]:
    """The history with the outside turns, in order of time (rule 2)."""
    if not made:
        return history
    from clew.core.branching.compare import rounds  # here, because it loads what few turns need

    held = {known.turn_id for known in pin.absorbed}
    floor = max((n for n, turn in enumerate(history, start=1) if turn.id in held), default=0)
    starts: list[tuple[int, float]] = []  # of each round of the thread: where it ends, and when it began
    end = 0
    for each in rounds(history):
        end += len(each.turns)
        starts.append((end, each.turns[0].created_at))
    found: list[Turn] = list(history)
    for number, outside in enumerate(made):
        at = outside.run.created_at
        place = max([floor, *(end for end, began_at in starts if end > floor and began_at <= at)])
        earlier = sum(len(before.turns) for before in made[:number])
        found[place + earlier : place + earlier] = outside.turns
        floor = place
    return tuple(found)


def store_arrival(store: Store, thread: Thread, found: Arrival) -> None:
    """Stores the turns, their runs and their tool calls, within a transaction."""
    new = {turn.id for turn in found.turns}
    for each in found.rounds:
        store.runs.create(each.run)
        store.events.append(each.run.id, each.events)
    following: TurnId | None = None  # the next turn that the thread already has
    places: list[tuple[Turn, TurnId | None]] = []
    for turn in reversed(found.history if new else ()):
        if turn.id in new:
            places.append((turn, following))
        else:
            following = turn.id
    for turn, before in reversed(places):
        store.turns.add(thread.id, turn, before=before)
    for pin in found.pins:
        store.pins.save(pin)
