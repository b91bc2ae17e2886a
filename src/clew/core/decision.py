"""The one decision before a turn: resume a session with a delta, or start fresh with the transcript.

Rules
1. `decide` is pure and total: every request gets `Resume` or `Fresh`, and `Fresh` says why. The guards stand in
   `GUARDS`, in order; the first that objects names the reason.
2. The decision carries its own prompt. A resume flag without a session, or no resume and no transcript, cannot be
   written down (laws 1 and 2).
3. `shown` is what the session will have been given when the attempt succeeds. It becomes the pin's `pending`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from clew.core import prompts
from clew.core.history import History, Role, Turn, Visibility, text_digest, visible
from clew.core.ids import SessionId, TurnId
from clew.core.pins import Absorbed, Observed, Pin, PinState, Runtime, has_diverged, stands
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
    REJECTED = "rejected"  # found only at run time
    OVERFLOW = "overflow"  # found only at run time


MEANING: dict[Reason, str] = {
    Reason.DISABLED: "resume is switched off",
    Reason.UNSUPPORTED: "this agent cannot resume a session",
    Reason.FORCED_FRESH: "a fresh session was asked for",
    Reason.FIRST_TURN: "first turn of the thread",
    Reason.NO_PIN: "no session of this agent and model to resume",
    Reason.POISONED: "the session's history is broken for good",
    Reason.HISTORY_CHANGED: "turns that the session holds were edited, removed or hidden",
    Reason.WORK_DIR_CHANGED: "the work directory is another one",
    Reason.RUNTIME_CHANGED: "the agent's binary or settings folder is another one",
    Reason.EXPIRED: "the session is too old",
    Reason.WORN_OUT: "the session was resumed too often",
    Reason.SESSION_MISSING: "the session's file is gone",
    Reason.SESSION_DIVERGED: "the session went on outside Clew; what was said there is not in this thread",
    Reason.SESSION_DAMAGED: "the session's file was altered; what it held is not in it as it was",
    Reason.CANNOT_FORK: "the session is another thread's, and this agent cannot copy it up to there",
    Reason.UNCONFIRMED: "the last run was cut off and the session does not tell what it holds",
    Reason.REJECTED: "the agent did not know the session",
    Reason.OVERFLOW: "the conversation did not fit the model's context",
}


# Of a session that went on outside.
ADOPT = "`clew sessions adopt {session_id}` makes a thread of its own of all that it holds."


class Request(Record):
    """What a host asks for."""

    agent: str
    model: str  # "" when the agent's default is not known yet
    work_dir: str
    runtime: Runtime
    prompt: Turn  # the new user turn, already stored; not part of `history`
    standing: str | None = None  # what holds for the whole thread
    force_fresh: bool = False
    full: str | None = None  # what a fresh session is told instead of a turn's own text, which is its short form …
    full_of: TurnId | None = None  # … of this turn; None: of the prompt
    done: str | None = None  # how far the last turns came, for a fresh session: see core/work_done


class Abilities(Record):
    """What the probe found the binary able to do."""

    resume: bool
    choose_id: bool  # the host may name the session before it exists
    flags: frozenset[str] = frozenset()  # every long option that its help lists; only its adapter reads them
    version: str = ""
    product: str = ""
    is_agent: bool = True  # it is what its adapter takes it for
    session_files: bool = True  # its sessions are files that we can read; without them, after a cut-off: fresh
    asks: bool = True  # it puts questions to its host while it runs; if not, its stdin ends with the prompt
    streams: bool = True  # its text comes in pieces
    fork: bool = False  # it can resume a session into a copy of it
    rewind: bool = False  # and into one that ends with an earlier message


class Policy(Record):
    """The user's settings that bear on the decision."""

    enable_resume: bool = True
    max_age_s: float | None = None
    max_resumes: int | None = None
    visibility: Visibility = Visibility.SHARED
    limit_chars: int = 400_000  # of a transcript or a catch-up


class Resume(Record):
    """Go on in this session; `prompt` is the delta."""

    pin: Pin
    prompt: str
    shown: tuple[Absorbed, ...]
    standing: str | None  # digest of the standing text the session will know
    transcript_chars: int  # what Fresh would have sent: for the estimate of what was saved

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
    omitted: int = 0  # turns that were left out, and the prompt says so
    passed_over: SessionId | None = None  # the session that would have been resumed, but for the reason


Decision = Resume | Fresh


def candidate(pins: Sequence[Pin], agent: str, model: str) -> Pin | None:
    """The pin that a turn of this agent and model would resume: the newest that is not retired."""
    for pin in reversed(pins):
        if pin.agent == agent and pin.model == model and pin.state is not PinState.RETIRED:
            return pin
    return None


def decide(
    request: Request,
    history: History,
    pins: Sequence[Pin],
    abilities: Abilities,
    observed: Observed,
    policy: Policy,
    now: float,
) -> Decision:
    """Resume or Fresh. `pins` are the thread's, oldest first, settled; `observed` is about the candidate's file."""
    reason = objection(request, history, pins, abilities, observed, policy, now)
    pin = candidate(pins, request.agent, request.model)
    if reason is not None:
        return replace(fresh(request, history, policy, reason), passed_over=pin.session_id if pin is not None else None)
    assert pin is not None  # the no_pin guard has spoken otherwise
    return _resume(pin, request, visible(history, request.agent, policy.visibility), policy)


def objection(
    request: Request,
    history: History,
    pins: Sequence[Pin],
    abilities: Abilities,
    observed: Observed,
    policy: Policy,
    now: float,
) -> Reason | None:
    """Why `decide` would not resume, with no prompt worded: cheap enough for a long list."""
    seen = visible(history, request.agent, policy.visibility)
    pin = candidate(pins, request.agent, request.model)
    case = _Case(request, history, seen, pin, abilities, observed, policy, now)
    return next((reason for reason, objects in GUARDS if objects(case)), None)


def fresh(request: Request, history: History, policy: Policy, reason: Reason) -> Fresh:
    """Fresh, for that reason. The engine calls it too, for the fallbacks that only a run can find."""
    seen = visible(history, request.agent, policy.visibility)
    told, text = seen, request.prompt.text
    if request.full is not None and request.full_of is None:
        text = request.full
    elif request.full is not None:
        told = tuple(turn.replace(text=request.full) if turn.id == request.full_of else turn for turn in seen)
    section = prompts.turns_section(told, policy.limit_chars) if told else None
    omitted = section.omitted if section else 0
    prompt = prompts.fresh(request.standing, section, text, request.done)
    return Fresh(
        reason=reason,
        prompt=prompt,
        shown=_shown(seen, request.prompt, omitted),
        standing=_standing_digest(request),
        transcript_chars=len(prompt),
        omitted=omitted,
    )


def shorter(policy: Policy) -> Policy:
    """The policy after an overflow: the next transcript is cut to fit."""
    return replace(policy, limit_chars=policy.limit_chars // 4)


def _resume(pin: Pin, request: Request, seen: History, policy: Policy) -> Resume:
    missed = _missed(pin, seen)
    section = prompts.turns_section(missed, policy.limit_chars) if missed else None
    omitted = section.omitted if section else 0
    last = seen[-1]  # a session that has absorbed nothing is not resumed
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
            request.standing, seen, request.full or request.prompt.text, policy.limit_chars
        ),
    )


def _missed(pin: Pin, seen: History) -> History:
    """The turns that the session has not absorbed; of a cut-off answer, only the words that it lacks."""
    missed = seen[len(pin.absorbed) :]
    if pin.held_back is not None:  # it is the first of them: else the pin does not stand
        rest = missed[0].text[pin.held_back.chars :]
        missed = (replace(missed[0], text=f"[The end of your own last answer:] {rest}"), *missed[1:])
    return missed


def _shown(turns: Sequence[Turn], prompt: Turn, omitted: int) -> tuple[Absorbed, ...]:
    left_out = (Absorbed(turn.id, None) for turn in turns[:omitted])
    given = (Absorbed.of(turn) for turn in turns[omitted:])
    return (*left_out, *given, Absorbed.of(prompt))


def _standing_digest(request: Request) -> str | None:
    return text_digest(request.standing) if request.standing else None


def _standing_note(pin: Pin, request: Request) -> str | None:
    if pin.standing == _standing_digest(request):
        return None
    if not request.standing:
        return prompts.STANDING_GONE
    if pin.standing is None:
        return request.standing
    return f"{prompts.STANDING_CHANGED}\n\n{request.standing}"


class _Case(Record):
    """All that the guards look at."""

    request: Request
    history: History
    seen: History
    found: Pin | None
    abilities: Abilities
    observed: Observed
    policy: Policy
    now: float

    @property
    def pin(self) -> Pin:
        assert self.found is not None  # the guards that use it stand after no_pin
        return self.found


def _is_expired(case: _Case) -> bool:
    return case.policy.max_age_s is not None and case.now - case.pin.used_at > case.policy.max_age_s


def _is_worn_out(case: _Case) -> bool:
    return case.policy.max_resumes is not None and case.pin.resume_count >= case.policy.max_resumes


def _cannot_fork(case: _Case) -> bool:
    """A borrowed session is never written into: it is copied, up to where it is ours too."""
    if case.pin.borrowed_at is None:
        return False
    can_end_there = case.abilities.rewind or case.observed.beyond is False
    return not (case.pin.borrowed_at and case.abilities.fork and can_end_there)


def _is_unconfirmed(case: _Case) -> bool:
    """The last attempt's outcome is open, or nothing was ever confirmed to be in there."""
    return case.pin.pending is not None or not case.pin.absorbed


GUARDS: tuple[tuple[Reason, Callable[[_Case], bool]], ...] = (
    (Reason.DISABLED, lambda case: not case.policy.enable_resume),
    (Reason.UNSUPPORTED, lambda case: not case.abilities.resume),
    (Reason.FORCED_FRESH, lambda case: case.request.force_fresh),
    (Reason.FIRST_TURN, lambda case: not case.history),
    (Reason.NO_PIN, lambda case: case.found is None),
    (Reason.POISONED, lambda case: case.pin.state is PinState.POISONED),
    (Reason.HISTORY_CHANGED, lambda case: not stands(case.pin, case.seen)),
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
