"""A test oracle for law 3: it says which asks may resume a session, for any script of steps on a thread.

It does not use Clew's decision, and does not read Clew's records of sessions. It keeps a ledger of its own: what each
session was shown and has said, as tokens, from what anybody can see: the attempts of each run, the turns of the thread,
and what was done outside. Call `source` or `allows` for an ask, `ended` when its run is over, and one of the other
methods for each thing that somebody does to a session outside Clew.

Rules (law 3 and the outcome table of the design)
1. A session may be continued as long as everything that it holds stands in what the agent may see of the thread:
   unchanged, in order, and with nothing before that the session lacks. Only turns that were made outside may be out of
   order: in the thread they are where their time is, also if the thread was continued meanwhile.
2. Else, with `rewind`, a copy of it may continue from the last place for which this holds: a completed turn of the
   session ends there, it is after the last compaction, and everything up to there stands.
3. The newest session of the agent and model counts. If it is gone, or nothing of it stands, a copy of an older one may
   be used, with `rewind`. If there is none for this model, and `model_switch` is "copy", a copy of another model's.
4. A session that was poisoned is never used, and neither is one that branched off outside: the next ask is fresh. A
   session is retired, and does not count any more, when it was rejected, when its context overflowed, and when it
   failed twice in a row without an explanation.
5. A session that grew outside may be continued: its new turns come into the thread first (`due`). That is for the
   newest session of each agent and model. An older one that grew is not used: the thread never gets these turns.
6. The first turn of a thread is fresh, and so is one for which a fresh session was asked, every one without
   `enable_resume`, and a prompt that is asked again after a failed run, or without `rewind`.

It knows nothing about the age of a session, the number of its resumes, a change of the directory or the program, and
threads that were forked: give each of them a ledger of its own, or `fresh=True` where such a limit applies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from clew.core.history import Turn, Visibility, visible
from clew.core.record import Record, replace
from clew.core.runs.run import Attempt
from clew.testing.truth.tokens import tokens

NOTHING_SAVED: Mapping[str, Collection[str]] = MappingProxyType({})
FAILURES_IN_A_ROW = 2  # after that many without an explanation, a session is retired


class Ask(Record):
    """A prompt, as it was decided about."""

    agent: str
    model: str
    history: Sequence[Turn]  # the thread before the prompt, with the turns that came in from outside
    prompt: str
    fresh: bool = False  # a fresh session was asked for
    retries: bool = False  # an earlier prompt is asked again


class Source(Record):
    """The session that an ask may resume, and how much of it."""

    session_id: str
    kept: tuple[str, ...]  # the tokens that it holds, in its own order; of a rewound one, up to where it is rewound
    summarised: frozenset[str]  # those of them that the session may hold only as its own summary
    is_whole: bool  # False: it is rewound


class _Held(Record):
    token: str
    is_end: bool = False  # a completed turn of the session ends here
    is_outside: bool = False  # it was said in this session, outside Clew


class _Session(Record):
    id: str
    agent: str
    model: str
    held: tuple[_Held, ...] = ()
    summarised: int = 0  # how many of them, from the first, came before the last compaction
    known: int = 0  # how many of them, from the first, Clew has seen in it
    is_poisoned: bool = False
    is_retired: bool = False
    is_branched: bool = False
    is_gone: bool = False
    failures: int = 0  # in a row, without an explanation

    @property
    def is_usable(self) -> bool:
        return bool(self.held) and not (self.is_poisoned or self.is_retired or self.is_branched or self.is_gone)

    @property
    def new_outside(self) -> list[_Held]:
        """What was said in the session outside, and is not in the thread yet."""
        return [each for each in self.held[self.known :] if each.is_outside]


class Ledger:
    """What each session of a thread holds, and how many asks could be resumed so far."""

    def __init__(
        self,
        *,
        visibility: Visibility = Visibility.SHARED,
        rewind: bool = True,
        model_switch: str = "transcript",
        follow_moves: bool = True,
        enable_resume: bool = True,
    ) -> None:
        self.visibility = visibility
        self.rewind = rewind
        self.follow_moves = follow_moves
        self.enable_resume = enable_resume
        self.model_switch = model_switch
        self.allowed = 0  # asks that law 3 allowed to resume
        self.resumed = 0  # asks that did resume
        self.outside: set[str] = set()  # the tokens of turns that were made outside
        self._sessions: dict[str, _Session] = {}  # by id, the oldest first
        self._last_failed = False

    # --- before an ask

    def allows(self, ask: Ask) -> bool:
        return self.source(ask) is not None

    def source(self, ask: Ask) -> Source | None:
        """What the ask may resume; None: it has to be fresh."""
        if ask.fresh or not ask.history or not self.enable_resume:
            return None
        if ask.retries and (self._last_failed or not self.rewind):
            return None
        seen = self.seen(ask)
        mine = self._of(ask.agent, ask.model)
        if not mine:
            others = self._of(ask.agent) if self.model_switch == "copy" else []
            return next(filter(None, (self._part(each, seen) for each in reversed(others))), None)
        newest = mine[-1]
        if newest.is_poisoned or (newest.is_branched and not newest.is_gone):
            return None
        older = reversed(mine[:-1]) if self.rewind else ()
        return next(filter(None, (self._part(each, seen) for each in (newest, *older))), None)

    def seen(self, ask: Ask) -> list[str]:
        """The tokens of what the agent may see of the thread, before the prompt."""
        return [token for turn in visible(ask.history, ask.agent, self.visibility) for token in tokens(turn.text)]

    def due(self) -> list[str]:
        """The tokens of the outside turns that come into the thread with the next ask."""
        return [held.token for each in self._current() for held in each.new_outside]

    def _current(self) -> list[_Session]:
        """The newest session of each agent and model, if it still is the thread's."""
        begun = (each for each in self._sessions.values() if each.held and not each.is_retired)
        newest = {(each.agent, each.model): each for each in begun}
        return [each for each in newest.values() if not (each.is_branched or each.is_gone)]

    def _of(self, agent: str, model: str | None = None) -> list[_Session]:
        """The sessions of an agent that count, the oldest first."""
        return [
            each
            for each in self._sessions.values()
            if each.agent == agent and model in (None, each.model) and not each.is_retired
        ]

    def _part(self, session: _Session, seen: Sequence[str]) -> Source | None:
        if not session.is_usable or (session.new_outside and session not in self._current()):
            return None
        if self._stands(session.held, seen):
            return _source(session, len(session.held))
        for count in range(len(session.held), session.summarised if self.rewind else len(session.held), -1):
            if session.held[count - 1].is_end and self._stands(session.held[:count], seen):
                return _source(session, count)
        return None

    def _stands(self, held: Sequence[_Held], seen: Sequence[str]) -> bool:
        """Rule 1, for all of these turns."""
        places = {token: place for place, token in enumerate(seen)}
        if any(each.token not in places for each in held):
            return False
        own = [places[each.token] for each in held if each.token not in self.outside]
        before = seen[: own[-1]] if own else []
        return own == sorted(own) and {*before} <= {each.token for each in held}

    # --- after an ask

    def ended(
        self,
        ask: Ask,
        attempts: Sequence[Attempt],
        answer: str,
        *,
        saved: Mapping[str, Collection[str]] = NOTHING_SAVED,
        copied_from: str | None = None,
    ) -> None:
        """The run of an ask is over. `answer` is the text of its last attempt.

        `saved` has the tokens that the sessions' files hold, by session. Without an entry, a session is taken to hold
        a turn that succeeded, and nothing of one that did not. `copied_from` is the session that was copied, if a copy
        was resumed; by default it is what `source` says.
        """
        source = self.source(ask)
        self.allowed += source is not None
        self.resumed += attempts[0].resumed
        seen = self.seen(ask)
        self._arrive()
        for attempt in attempts:
            base = self._base(ask, attempt, copied_from or (source.session_id if source else ""), seen)
            said = answer if attempt is attempts[-1] else ""
            self._sessions[base.id] = self._shown(base, ask, seen, said, attempt, saved)
        self._last_failed = attempts[-1].outcome not in ("success", "cancelled")

    def _arrive(self) -> None:
        """Clew has looked at what the newest session of each agent and model holds."""
        for each in self._current():
            self._change(each.id, known=len(each.held))

    def _base(self, ask: Ask, attempt: Attempt, copied_from: str, seen: Sequence[str]) -> _Session:
        """The session of an attempt before it was shown anything."""
        if not attempt.resumed:
            return _Session(attempt.session_id, ask.agent, ask.model)
        if (session := self._sessions.get(attempt.session_id)) is not None:
            return replace(session, known=len(session.held))
        made = _Session(attempt.session_id, ask.agent, ask.model)
        copied = self._sessions.get(copied_from)
        part = self._part(copied, seen) if copied is not None else None
        if copied is None or part is None:
            return made  # law 3 does not allow it, so the ledger does not know what the copy holds
        held = tuple(replace(each, is_outside=False) for each in copied.held[: len(part.kept)])
        return replace(made, held=held, summarised=min(copied.summarised, len(held)))

    def _shown(
        self,
        base: _Session,
        ask: Ask,
        seen: Sequence[str],
        answer: str,
        attempt: Attempt,
        saved: Mapping[str, Collection[str]],
    ) -> _Session:
        """The session with what it was shown and has said, as far as it was saved."""
        has = {each.token for each in base.held}
        done = attempt.outcome == "success"
        given = [_Held(token) for token in (*seen, *tokens(ask.prompt)) if token not in has]
        said = [_Held(token, is_end=done) for token in tokens(answer)]
        kept = saved.get(base.id, [each.token for each in (*given, *said)] if done else ())
        new = tuple(each for each in (*given, *said) if each.token in kept)
        if not new and base.id not in self._sessions:
            return _moved(replace(base, held=()), attempt)
        held = (*base.held, *new)
        if done and len(new) == len(given) + len(said):
            return replace(base, held=held, known=len(held), failures=0)
        return _moved(replace(base, held=held), attempt)

    # --- outside Clew

    def continued(self, session_id: str, prompt: str, answer: str) -> None:
        """Somebody asked the session something in its plain CLI."""
        self.outside.update((*tokens(prompt), *tokens(answer)))
        asked = (_Held(token, is_outside=True) for token in tokens(prompt))
        added = (*asked, *(_Held(token, is_end=True, is_outside=True) for token in tokens(answer)))
        session = self._sessions[session_id]
        is_lost = session.is_branched or not self.follow_moves
        self._change(session_id, held=(*session.held, *added), is_branched=is_lost)

    def went_back(self, session_id: str, token: str) -> None:
        """Somebody rewound the session in place, to the end of the turn with this token."""
        session = self._sessions[session_id]
        count = 1 + [each.token for each in session.held].index(token)
        self._change(session_id, held=session.held[:count], is_branched=session.is_branched or count < session.known)

    def compacted(self, session_id: str) -> None:
        """The agent has replaced what the session holds by a summary."""
        self._change(session_id, summarised=len(self._sessions[session_id].held))

    def deleted(self, session_id: str) -> None:
        self._change(session_id, is_gone=True)

    def _change(self, session_id: str, **fields: object) -> None:
        self._sessions[session_id] = replace(self._sessions[session_id], **fields)

    # --- for scripts

    @property
    def sessions(self) -> tuple[str, ...]:
        """The ids of all sessions, the oldest first."""
        return tuple(self._sessions)

    def held(self, session_id: str) -> tuple[str, ...]:
        """The tokens that the session holds, in its order; () if the ledger does not know it."""
        session = self._sessions.get(session_id)
        return tuple(each.token for each in session.held) if session is not None else ()

    def known(self, session_id: str) -> tuple[str, ...]:
        """Those of them that Clew has seen there. Whoever rewinds the session to before the last one branches off."""
        return self.held(session_id)[: self._sessions[session_id].known]


def _source(session: _Session, count: int) -> Source:
    kept = tuple(each.token for each in session.held[:count])
    return Source(session.id, kept, frozenset(kept[: session.summarised]), is_whole=count == len(session.held))


def _moved(session: _Session, attempt: Attempt) -> _Session:
    """The session after an attempt that was no success, or a success that its file does not show: by the outcome
    table."""
    match attempt.outcome:
        case "success":
            return session
        case "poisoned":
            return replace(session, is_poisoned=True)
        case "rejected" | "overflow":
            return replace(session, is_retired=True)
        case "failed" | "media_removed":
            failures = session.failures + 1
            return replace(session, failures=failures, is_retired=failures >= FAILURES_IN_A_ROW)
    return replace(session, failures=0)
