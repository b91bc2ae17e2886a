"""The one decision before a turn: resume a session with a delta, or start fresh with the transcript.

Rules
1. `decide` is pure and total: every request gets `Resume` or `Fresh`, and `Fresh` says why. The guards are listed in
   `GUARDS`, in order; the first guard that objects gives the reason.
2. The decision carries its own prompt. A resume flag without a session, or no resume and no transcript, cannot be
   expressed (laws 1 and 2).
3. `shown` is what the session will have been given when the attempt succeeds. It becomes the pin's `pending`.
4. A session of which only the beginning stands is rewound, if the agent can do that: a copy of it continues from the
   last completed turn before the change, with the later turns as catch-up, and with a note of what the dropped turns
   did to the files. The reason of the objection is then the reason of the rewind (law 3).
5. If the newest session cannot be used at all, a copy of another one may be: an older session of the same agent and
   model, or, for a first turn on another model, the newest session of the agent (`DecisionCase.others`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from clew.core import prompts
from clew.core.history import Absorbed, History, Role, Turn, Visibility, ids_of, outline_of, text_digest, visible
from clew.core.ids import SessionId, TurnId
from clew.core.pins import (
    UNKNOWN_STANDING,
    Observed,
    Pin,
    PinState,
    Runtime,
    SessionEnd,
    has_diverged,
    is_valid,
    missed,
    standing_count,
)
from clew.core.record import Record, replace
from clew.core.session import SessionState

NO_EFFECTS: Mapping[TurnId, str] = MappingProxyType({})


class Reason(StrEnum):
    """Why a turn starts fresh, or why the session was rewound or copied. Surfaces show it; metrics count it."""

    DISABLED = "disabled"
    UNSUPPORTED = "unsupported"
    FORCED_FRESH = "forced_fresh"
    FIRST_TURN = "first_turn"
    NO_PIN = "no_pin"
    POISONED = "poisoned"
    HISTORY_CHANGED = "history_changed"
    WORK_DIR_CHANGED = "work_dir_changed"
    RUNTIME_CHANGED = "runtime_changed"
    EXPIRED = "expired"
    WORN_OUT = "worn_out"
    SESSION_MISSING = "session_missing"
    SESSION_DIVERGED = "session_diverged"
    SESSION_DAMAGED = "session_damaged"
    CANNOT_FORK = "cannot_fork"
    UNCONFIRMED = "unconfirmed"
    REJECTED = "rejected"  # not from a guard: it is found when an attempt fails
    OVERFLOW = "overflow"  # not from a guard: it is found when an attempt fails


MEANING: dict[Reason, str] = {
    Reason.DISABLED: "resume is switched off",
    Reason.UNSUPPORTED: "this agent cannot resume a session",
    Reason.FORCED_FRESH: "a fresh session was asked for",
    Reason.FIRST_TURN: "first turn of the thread",
    Reason.NO_PIN: "no session of this agent and model to resume",
    Reason.POISONED: "the session's history is broken for good",
    Reason.HISTORY_CHANGED: "turns that the session holds were edited, removed, hidden or asked again",
    Reason.WORK_DIR_CHANGED: "the work directory changed",
    Reason.RUNTIME_CHANGED: "the agent's binary or settings folder changed",
    Reason.EXPIRED: "the session is too old",
    Reason.WORN_OUT: "the session was resumed too often",
    Reason.SESSION_MISSING: "the session's file is gone",
    Reason.SESSION_DIVERGED: "the session continued outside Clew; what was said there is not in this thread",
    Reason.SESSION_DAMAGED: "the session's file was altered: its earlier content has changed",
    Reason.CANNOT_FORK: "the session belongs to another thread, and this agent cannot copy it up to the fork",
    Reason.UNCONFIRMED: "the last run was cut off, and the session's file does not show what the session holds",
    Reason.REJECTED: "the agent did not know the session",
    Reason.OVERFLOW: "the conversation did not fit the model's context",
}


# Shown when a session was continued outside Clew.
ADOPT_HINT = "`clew sessions adopt {session_id}` makes a new thread of everything that the session holds."


class DecisionRequest(Record):
    """The turn that a host asks for."""

    agent: str
    model: str  # "" when the agent's default is not known yet
    work_dir: str
    runtime: Runtime
    prompt: Turn  # the new user turn, already stored; not part of `history`
    standing: str | None = None  # the standing text: what applies to the whole thread
    force_fresh: bool = False
    # The text of the turn `full_prompt_of` (None: of the prompt) is a short form for sessions that know the rest. To a
    # fresh session, `full_prompt` is sent instead.
    full_prompt: str | None = None
    full_prompt_of: TurnId | None = None
    # What the interrupted agent already did, for a session that does not know it: see core/work_done.
    work_done: str | None = None


class Abilities(Record):
    """What the binary can do, as the probe found."""

    resume: bool
    choose_id: bool  # the host may name the session before it exists
    flags: frozenset[str] = frozenset()  # every long option that its help lists; only the adapter reads them
    version: str = ""
    product: str = ""
    is_agent: bool = True  # the binary is the agent that its adapter expects
    session_files: bool = True  # we can read its sessions' files; if not, the turn after an interrupted run is fresh
    asks: bool = True  # it asks its host questions while it runs; if not, its stdin ends with the prompt
    streams: bool = True  # its text arrives in pieces
    fork: bool = False  # it can resume a session into a copy
    rewind: bool = False  # it can resume a session into a copy that ends with an earlier message
    images: bool = False  # it can be shown images with a prompt


class ModelSwitch(StrEnum):
    """What a first turn on another model of the same agent starts with."""

    COPY = "copy"  # a copy of the newest session of the agent that stands
    TRANSCRIPT = "transcript"  # a fresh session with the transcript


class Policy(Record):
    """The user's settings that affect the decision."""

    enable_resume: bool = True
    rewind: bool = True  # a session of which only the beginning stands is rewound; False: it is not used any more
    follow_moves: bool = True  # turns that were made outside Clew are brought in; False: their session is not used
    model_switch: ModelSwitch = ModelSwitch.TRANSCRIPT
    max_age_s: float | None = None
    max_resumes: int | None = None
    visibility: Visibility = Visibility.SHARED
    limit_chars: int = 400_000  # of a transcript or a catch-up


class Rewind(Record):
    """The place up to which a session stands: a copy of it continues from there."""

    end_id: str  # the agent's own id of the place
    turn_id: TurnId  # the last turn that the copy holds
    number: int  # its number in the thread, from 1


RewoundPin = tuple[Rewind, Pin]  # a place, and the pin as it is for the copy that ends there


class Resume(Record):
    """Continue this session; `prompt` is the delta."""

    pin: Pin  # of a rewind: only with what the copy will hold
    prompt: str
    shown: tuple[Absorbed, ...]
    standing: str | None  # digest of the standing text that the session will know
    transcript_chars: int  # how much Fresh would have sent: for the estimate of what was saved
    reason: Reason | None = None  # why the session was rewound, or why a copy of another one continues
    rewind: Rewind | None = None
    copies: bool = False  # the turn continues in a copy: the session stays as it is

    @property
    def session_id(self) -> SessionId:
        return self.pin.session_id


class Fresh(Record):
    """Start a new session; `prompt` holds the whole transcript."""

    reason: Reason
    prompt: str
    shown: tuple[Absorbed, ...]
    standing: str | None
    transcript_chars: int
    omitted: int = 0  # how many turns were left out; the prompt says so
    skipped_session: SessionId | None = None  # the session that would have been resumed without this reason


Decision = Resume | Fresh


def candidate(pins: Sequence[Pin], agent: str, model: str) -> Pin | None:
    """The pin that a turn of this agent and model would resume: the newest that is not retired."""
    for pin in reversed(pins):
        if pin.agent == agent and pin.model == model and pin.state is not PinState.RETIRED:
            return pin
    return None


class DecisionCase(Record):
    """Everything that the decision depends on. The guards read it too."""

    request: DecisionRequest
    history: Sequence[Turn]
    pins: Sequence[Pin]  # the thread's pins, the oldest first, reconciled with their session files
    abilities: Abilities
    observed: Observed  # the candidate's session file, as the engine just read it
    policy: Policy
    now: float
    others: tuple[tuple[Pin, Observed], ...] = ()  # sessions of which a copy may be used, the most suitable first
    effects: Mapping[TurnId, str] = NO_EFFECTS  # what turns did to files, in words; only those that a copy lacks
    lender: Pin | None = None  # while one of the others is looked at: that one

    @property
    def seen(self) -> Sequence[Turn]:
        """What the agent may see of the history."""
        return visible(self.history, self.request.agent, self.policy.visibility)

    @property
    def candidate(self) -> Pin | None:
        return self.lender or candidate(self.pins, self.request.agent, self.request.model)

    @property
    def pin(self) -> Pin:
        pin = self.candidate
        assert pin is not None  # the guards that use `pin` come after NO_PIN in GUARDS
        return pin


def decide(case: DecisionCase) -> Decision:
    return decide_after(case, objection(case))


def decide_after(case: DecisionCase, reason: Reason | None) -> Decision:
    """`decide`, for a caller that already knows the objection. Finding it takes time in a long history."""
    found = _source(case, reason)
    if found is not None:
        return _resume(found[0], reason, found[1])
    pin = case.candidate
    return replace(
        fresh(case.request, case.history, case.policy, reason or Reason.NO_PIN),
        skipped_session=pin.session_id if pin is not None else None,
    )


def objection(case: DecisionCase) -> Reason | None:
    """Why `decide` would not resume the candidate as it is. It builds no prompt, so it is cheap enough to call for a
    long list of threads."""
    return next((reason for reason, objects in GUARDS if objects(case)), None)


def resumes(case: DecisionCase, reason: Reason | None) -> SessionId | None:
    """The session that `decide_after` would resume, or of which it would resume a copy. It builds no prompt."""
    found = _source(case, reason)
    return found[0].pin.session_id if found is not None else None


def _source(case: DecisionCase, reason: Reason | None) -> tuple[DecisionCase, RewoundPin | None] | None:
    """What is resumed: the candidate as it is, or rewound; else a copy of one of the others, as it is or rewound."""
    if reason is None:
        return case, None
    rewound = rewind_of(case, reason)
    if rewound is not None:
        return case, rewound
    for pin, observed in case.others if may_use_another(case, reason) else ():
        other = replace(case, lender=pin, observed=observed, others=())
        objects = objection(other)
        rewound = rewind_of(other, objects)
        if objects is None or rewound is not None:
            return other, rewound
    return None


def may_use_another(case: DecisionCase, reason: Reason) -> bool:
    """Whether a copy of another session of the agent may be resumed, although the candidate cannot be."""
    if not case.abilities.fork or has_diverged(case.observed):
        return False
    if reason is Reason.NO_PIN:
        return case.policy.model_switch is ModelSwitch.COPY
    return reason in REPLACED_BY_OLDER and case.policy.rewind


def rewind_of(case: DecisionCase, reason: Reason | None) -> RewoundPin | None:
    """The place to which the candidate's session can be rewound, if `reason` objects to it as it is.

    It is after the last completed turn for which this holds: it is after the last compaction, and everything that the
    session absorbed up to there stands.
    """
    if reason not in REWINDABLE or not (case.policy.rewind and case.abilities.rewind):
        return None
    if any(objects(case) for other, objects in GUARDS if other not in SKIPPED):
        return None
    pin, seen = case.pin, case.seen
    by_id = {turn.id: turn for turn in seen}
    ends = {message_id: end for end in case.observed.ends for message_id in end.message_ids}
    for count in range(standing_count(pin, seen), 0, -1):
        turn = by_id[pin.absorbed[count - 1].turn_id]
        end = ends.get(turn.message_id or "")
        if end is None:
            continue
        cut = _cut(pin, count, end)
        if _ends_there(turn, end, cut, by_id) and is_valid(cut, seen):
            number = 1 + next(n for n, turn_id in enumerate(ids_of(case.history)) if turn_id == turn.id)
            return Rewind(end.end_id, turn.id, number), cut
    return None


def _ends_there(turn: Turn, end: SessionEnd, cut: Pin, by_id: Mapping[TurnId, Turn]) -> bool:
    """Whether the session, up to that end, holds nothing but what the pin says. A prompt that the pin does not know
    may be from a turn that was dropped."""
    asked = sum(by_id[known.turn_id].role is Role.USER for known in cut.absorbed)
    return turn.role is Role.ASSISTANT and not turn.partial and end.prompts <= asked


def _cut(pin: Pin, count: int, end: SessionEnd) -> Pin:
    """The pin of a session that was rewound to after its first `count` absorbed turns."""
    return replace(
        pin,
        absorbed=pin.absorbed[:count],
        pending=None,
        partly_absorbed=None,
        standing=UNKNOWN_STANDING if end.told_later else pin.standing,
        summarised=min(pin.summarised, count),
    )


def fresh(request: DecisionRequest, history: Sequence[Turn], policy: Policy, reason: Reason) -> Fresh:
    """The decision to start fresh for that reason. The engine also calls it to fall back after a failed attempt."""
    seen = visible(history, request.agent, policy.visibility)
    turns, text = seen, request.prompt.text
    if request.full_prompt is not None and request.full_prompt_of is None:
        text = request.full_prompt
    elif request.full_prompt is not None:
        turns = tuple(
            turn.replace(text=request.full_prompt) if turn.id == request.full_prompt_of else turn for turn in seen
        )
    section = prompts.turns_section(turns, policy.limit_chars) if turns else None
    omitted = section.omitted if section else 0
    prompt = prompts.fresh(request.standing, section, text, request.work_done)
    return Fresh(
        reason=reason,
        prompt=prompt,
        shown=_shown(seen, request.prompt, omitted),
        standing=_standing_digest(request),
        transcript_chars=len(prompt),
        omitted=omitted,
    )


def with_shorter_transcript(policy: Policy) -> Policy:
    """The policy after an overflow: the next transcript is cut to a quarter."""
    return replace(policy, limit_chars=policy.limit_chars // 4)


def _resume(case: DecisionCase, reason: Reason | None, rewound: RewoundPin | None) -> Resume:
    request, seen, policy = case.request, case.seen, case.policy
    rewind, pin = rewound if rewound is not None else (None, case.pin)
    lacks = missed(pin, seen)
    section = prompts.turns_section(_worded(pin, lacks), policy.limit_chars) if lacks else None
    omitted = section.omitted if section else 0
    last = seen[-1]  # `seen` is not empty, because a session that has absorbed nothing is not resumed
    prompt = prompts.delta(
        _standing_note(pin, request),
        section,
        request.prompt.text,
        form_answered=not lacks and last.role is Role.ASSISTANT and prompts.has_form(last.text),
        done=_work_done(case, pin, lacks),
    )
    return Resume(
        pin=pin,
        prompt=prompt,
        shown=_shown(lacks, request.prompt, omitted),
        standing=_standing_digest(request),
        transcript_chars=prompts.fresh_chars(
            request.standing, seen, request.full_prompt or request.prompt.text, policy.limit_chars
        ),
        reason=reason,
        rewind=rewind,
        copies=rewind is not None or case.lender is not None or pin.borrowed_at is not None,
    )


def _work_done(case: DecisionCase, pin: Pin, lacks: History) -> str | None:
    """What the turns that a copy does not hold did to the files; and what the host knows about the work of an
    interrupted agent, if the session does not even have a prompt of that work."""
    held = {each.turn_id for each in pin.absorbed} if case.effects else ()
    dropped = prompts.dropped_effects([text for turn_id, text in case.effects.items() if turn_id not in held])
    interrupted = case.request.work_done if any(turn.role is Role.USER for turn in lacks) else None
    return "\n\n".join(part for part in (dropped, interrupted) if part) or None


def _worded(pin: Pin, lacks: History) -> History:
    """The missed turns as they are sent: of an interrupted answer, only the part that the session lacks."""
    part = pin.partly_absorbed
    if part is None:
        return lacks
    return tuple(
        replace(turn, text=f"[The end of your own last answer:] {turn.text[part.chars :]}")
        if turn.id == part.turn_id
        else turn
        for turn in lacks
    )


def _shown(turns: Sequence[Turn], prompt: Turn, omitted: int) -> tuple[Absorbed, ...]:
    left_out = (Absorbed(turn_id, None) for turn_id in ids_of(turns[:omitted]))
    return (*left_out, *outline_of(turns[omitted:]), Absorbed.of(prompt))


def _standing_digest(request: DecisionRequest) -> str | None:
    return text_digest(request.standing) if request.standing else None


def _standing_note(pin: Pin, request: DecisionRequest) -> str | None:
    if pin.standing == _standing_digest(request):
        return None
    if not request.standing:
        return prompts.STANDING_GONE
    if pin.standing is None:
        return request.standing
    return f"{prompts.STANDING_CHANGED}\n\n{request.standing}"


def _is_expired(case: DecisionCase) -> bool:
    return case.policy.max_age_s is not None and case.now - case.pin.used_at > case.policy.max_age_s


def _is_worn_out(case: DecisionCase) -> bool:
    return case.policy.max_resumes is not None and case.pin.resume_count >= case.policy.max_resumes


def _cannot_fork(case: DecisionCase) -> bool:
    """A borrowed session is never written to: it is copied, up to the last turn that both threads share."""
    if case.pin.borrowed_at is None:
        return False
    can_end_there = case.abilities.rewind or case.observed.continues_past_fork is False
    return not (case.pin.borrowed_at and case.abilities.fork and can_end_there)


def _is_unconfirmed(case: DecisionCase) -> bool:
    """The last attempt's outcome is unknown, or nothing was ever confirmed to be in the session."""
    return case.pin.pending is not None or not case.pin.absorbed


GUARDS: tuple[tuple[Reason, Callable[[DecisionCase], bool]], ...] = (
    (Reason.DISABLED, lambda case: not case.policy.enable_resume),
    (Reason.UNSUPPORTED, lambda case: not case.abilities.resume),
    (Reason.FORCED_FRESH, lambda case: case.request.force_fresh),
    (Reason.FIRST_TURN, lambda case: not case.history),
    (Reason.NO_PIN, lambda case: case.candidate is None),
    (Reason.POISONED, lambda case: case.pin.state is PinState.POISONED),
    (Reason.HISTORY_CHANGED, lambda case: not is_valid(case.pin, case.seen)),
    (Reason.WORK_DIR_CHANGED, lambda case: case.pin.work_dir != case.request.work_dir),
    (Reason.RUNTIME_CHANGED, lambda case: case.pin.runtime != case.request.runtime),
    (Reason.EXPIRED, _is_expired),
    (Reason.WORN_OUT, _is_worn_out),
    (Reason.SESSION_MISSING, lambda case: case.observed.state is SessionState.GONE),
    (Reason.SESSION_DIVERGED, lambda case: has_diverged(case.observed)),
    (Reason.SESSION_DAMAGED, lambda case: case.observed.is_damaged),
    (Reason.CANNOT_FORK, _cannot_fork),
    (Reason.UNCONFIRMED, _is_unconfirmed),
)

# The objections to a session of which the beginning may still stand.
REWINDABLE = frozenset({Reason.HISTORY_CHANGED, Reason.UNCONFIRMED})
# The guards that do not apply to a copy which ends earlier. A copy of a borrowed session ends before the fork does.
SKIPPED = REWINDABLE | {Reason.CANNOT_FORK}
# The objections after which an older session of the same agent and model is looked at.
REPLACED_BY_OLDER = REWINDABLE | {Reason.SESSION_MISSING, Reason.SESSION_DAMAGED}
