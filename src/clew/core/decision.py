"""The one decision before a turn: resume a session with a delta, or start fresh with the transcript.

Rules
1. `decide` is pure and total: every request gets `Resume` or `Fresh`, and `Fresh` says why. The guards are listed in
   `GUARDS`, in order; the first guard that objects gives the reason.
2. The decision carries its own prompt. A resume flag without a session, or no resume and no transcript, cannot be
   expressed (laws 1 and 2).
3. `shown` is what the session will have been given when the attempt succeeds. It becomes the pin's `pending`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from clew.core import prompts
from clew.core.history import History, Role, Turn, Visibility, text_digest, visible
from clew.core.ids import SessionId, TurnId
from clew.core.pins import Absorbed, Observed, Pin, PinState, Runtime, has_diverged, is_valid
from clew.core.record import Record, replace


class Reason(StrEnum):
    """Why a turn starts fresh. Surfaces show it; metrics count it."""

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
    Reason.HISTORY_CHANGED: "turns that the session holds were edited, removed or hidden",
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
    work_done: str | None = None  # what the interrupted agent already did, for a fresh session: see core/work_done


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


class Policy(Record):
    """The user's settings that affect the decision."""

    enable_resume: bool = True
    max_age_s: float | None = None
    max_resumes: int | None = None
    visibility: Visibility = Visibility.SHARED
    limit_chars: int = 400_000  # of a transcript or a catch-up


class Resume(Record):
    """Continue this session; `prompt` is the delta."""

    pin: Pin
    prompt: str
    shown: tuple[Absorbed, ...]
    standing: str | None  # digest of the standing text that the session will know
    transcript_chars: int  # how much Fresh would have sent: for the estimate of what was saved

    @property
    def session_id(self) -> SessionId:
        return self.pin.session_id

    @property
    def reason(self) -> None:
        return None


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
    history: History
    pins: Sequence[Pin]  # the thread's pins, the oldest first, reconciled with their session files
    abilities: Abilities
    observed: Observed  # the candidate's session file, as the engine just read it
    policy: Policy
    now: float

    @property
    def seen(self) -> History:
        """What the agent may see of the history."""
        return visible(self.history, self.request.agent, self.policy.visibility)

    @property
    def candidate(self) -> Pin | None:
        return candidate(self.pins, self.request.agent, self.request.model)

    @property
    def pin(self) -> Pin:
        pin = self.candidate
        assert pin is not None  # the guards that use `pin` come after NO_PIN in GUARDS
        return pin


def decide(case: DecisionCase) -> Decision:
    reason = objection(case)
    if reason is None:
        return _resume(case.pin, case.request, case.seen, case.policy)
    pin = case.candidate
    return replace(
        fresh(case.request, case.history, case.policy, reason),
        skipped_session=pin.session_id if pin is not None else None,
    )


def objection(case: DecisionCase) -> Reason | None:
    """Why `decide` would not resume. It builds no prompt, so it is cheap enough to call for a long list of threads."""
    return next((reason for reason, objects in GUARDS if objects(case)), None)


def fresh(request: DecisionRequest, history: History, policy: Policy, reason: Reason) -> Fresh:
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


def _resume(pin: Pin, request: DecisionRequest, seen: History, policy: Policy) -> Resume:
    missed = _missed(pin, seen)
    section = prompts.turns_section(missed, policy.limit_chars) if missed else None
    omitted = section.omitted if section else 0
    last = seen[-1]  # `seen` is not empty, because a session that has absorbed nothing is not resumed
    prompt = prompts.delta(
        _standing_note(pin, request),
        section,
        request.prompt.text,
        form_answered=not missed and last.role is Role.ASSISTANT and prompts.has_form(last.text),
    )
    return Resume(
        pin=pin,
        prompt=prompt,
        shown=_shown(seen[len(pin.absorbed) :], request.prompt, omitted),
        standing=_standing_digest(request),
        transcript_chars=prompts.fresh_chars(
            request.standing, seen, request.full_prompt or request.prompt.text, policy.limit_chars
        ),
    )


def _missed(pin: Pin, seen: History) -> History:
    """The turns that the session has not absorbed; of an interrupted answer, only the part that it lacks."""
    missed = seen[len(pin.absorbed) :]
    if pin.partly_absorbed is not None:  # in a valid pin, the partly absorbed answer is the first missed turn
        rest = missed[0].text[pin.partly_absorbed.chars :]
        missed = (replace(missed[0], text=f"[The end of your own last answer:] {rest}"), *missed[1:])
    return missed


def _shown(turns: Sequence[Turn], prompt: Turn, omitted: int) -> tuple[Absorbed, ...]:
    left_out = (Absorbed(turn.id, None) for turn in turns[:omitted])
    given = (Absorbed.of(turn) for turn in turns[omitted:])
    return (*left_out, *given, Absorbed.of(prompt))


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
    (Reason.SESSION_MISSING, lambda case: case.observed.exists is False),
    (Reason.SESSION_DIVERGED, lambda case: has_diverged(case.pin, case.observed)),
    (Reason.SESSION_DAMAGED, lambda case: case.observed.damaged),
    (Reason.CANNOT_FORK, _cannot_fork),
    (Reason.UNCONFIRMED, _is_unconfirmed),
)
