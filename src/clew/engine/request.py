"""One turn as a host requests it, and the run that is made from the request."""

from __future__ import annotations

from clew.core.decision import Abilities, Policy, Reason
from clew.core.ids import RunId, TurnId
from clew.core.images import Image
from clew.core.pins import PinState
from clew.core.record import Record, replace
from clew.core.rules.rules import RulesSource
from clew.core.runs.options import NO_OPTIONS, TurnOptions
from clew.core.runs.question import Question
from clew.core.runs.run import Run, RunOptions, RunStatus
from clew.core.thread import Thread
from clew.engine.settings import EngineSettings, RuntimeContext
from clew.errors import UsageError
from clew.store.store import Store


class Slots(Record):
    """A limit on how many runs are in progress at once. Each run holds one of `limit` leases."""

    prefix: str  # the beginning of the leases' keys
    limit: int


class TurnRequest(Record):
    """One turn as a host requests it: the caller's options, and what the host adds."""

    thread: Thread
    text: str
    options: TurnOptions = NO_OPTIONS
    typed: str | None = None  # what the user typed, if `text` is what it stood for
    standing: str | None = None  # the standing text, which applies to the whole thread
    full: str | None = None  # sent to a fresh session instead of `text`, …
    full_of: TurnId | None = None  # … or instead of the text of this earlier turn
    done: str | None = None  # also sent to a fresh session: work that the text of the last turns does not mention
    allowed_tools: tuple[str, ...] = ()  # allowed in addition to what the thread's permissions allow
    allowed_by: str = "--permissions"  # the setting that allows more, as the user knows it
    fresh_because: Reason | None = None  # with `options.fresh_session`: the reason that is shown
    fork: bool = False  # resume a copy of the session: another process may still write to the session
    retry_of: TurnId | None = None  # an earlier user turn that is asked again; the turns after it are archived
    max_age_s: float | None = None  # the maximum age of a session to resume, where no limit of the policy applies
    any_age: bool = False  # the host has checked the session's age itself: the policy's limit does not apply
    not_before: float | None = None  # when a usage limit resets; the session does not age until then
    continues: RunId | None = None  # the run that met that limit; if another prompt came since, this turn is cancelled
    rules_of: RulesSource | None = None  # whose rules the agent is shown; None: the work directory's
    job_id: str | None = None  # the job that the turn belongs to
    slots: Slots | None = None  # a host's limit over all machines, in addition to this machine's own
    allows_all: bool = False  # a person has allowed everything that this run asks permission for
    answers: Question | None = None  # the question that this prompt answers: its run died while the question was open
    images: tuple[Image, ...] = ()  # shown with the text; their files are stored

    @property
    def agent(self) -> str:
        return self.options.agent or self.thread.agent


def new_run(request: TurnRequest, model: str | None, context: RuntimeContext) -> Run:
    return Run(
        id=RunId(request.options.new_run_id or context.new_id()),
        thread_id=request.thread.id,
        prompt_turn_id=request.retry_of or TurnId(context.new_id()),
        prompt=request.text,
        typed=request.typed,
        agent=request.agent,
        model=model,
        status=RunStatus.QUEUED,
        owner=context.owner,
        asked=RunOptions(
            force_fresh=request.options.fresh_session,
            retry_of=request.retry_of,
            enable_resume=request.options.resume,
            timeout_s=request.options.timeout_s,
            lasting=request.options.lasting,
            not_before=request.not_before,
            continues=request.continues,
            answers=request.answers is not None,
        ),
        job_id=request.job_id,
        images=request.images,
        created_at=context.clock(),
    )


def request_of(run: Run, thread: Thread) -> TurnRequest:
    """The request of a stored run, for the process that takes the run over from a dead one."""
    asked = run.asked
    options = TurnOptions(
        agent=run.agent,
        model=run.model,
        fresh_session=asked.force_fresh,
        resume=asked.enable_resume,
        timeout_s=asked.timeout_s,
        lasting=True,
    )
    return TurnRequest(
        thread,
        run.prompt,
        options,
        typed=run.typed,
        standing=thread.standing,
        retry_of=asked.retry_of,
        not_before=asked.not_before,
        continues=asked.continues,
        images=run.images,
    )


def policy_of(request: TurnRequest, settings: EngineSettings) -> Policy:
    policy = replace(settings.policy, visibility=request.thread.visibility)
    if policy.max_age_s is None or request.any_age or request.not_before is not None:
        policy = replace(policy, max_age_s=request.max_age_s)
    return policy if request.options.resume is None else replace(policy, enable_resume=request.options.resume)


def default_model_key(agent: str) -> str:
    return f"default_model/{agent}"


def named_model(request: TurnRequest, configured: str | None) -> str | None:
    """The model that the options, the thread or the settings name; the first of them counts."""
    thread = request.thread
    return request.options.model or (thread.model if thread.agent == request.agent else None) or configured


def model_for(request: TurnRequest, configured: str | None, store: Store) -> str | None:
    """`named_model`, else the agent's default as its first run reported it, else the model of the newest session.

    None: not known yet. The last step is for threads from another machine, if the agent's default is not known here.
    """
    known = named_model(request, configured) or store.key_values.get(default_model_key(request.agent))
    return known or next(
        (
            pin.model
            for pin in reversed(store.pins.of_thread(request.thread.id, retired=False, absorbed=False))
            if pin.agent == request.agent and pin.state is PinState.GOOD and pin.model
        ),
        None,
    )


def check_images(agent: str, can: Abilities) -> None:
    """Raises UsageError if the agent cannot be shown images."""
    if not can.images:
        version = f" {can.version}" if can.version else ""
        raise UsageError(
            f"{agent}{version} cannot be shown images.",
            hint="Update it, ask another agent with --agent, or ask without images.",
        )


def check_argument(what: str, value: str | None) -> None:
    """Checks a value for an agent's command line. Raises UsageError for control characters and for a leading dash."""
    if value is not None and not value.isprintable():
        raise UsageError(f"The {what} holds characters that cannot be printed.")
    if value is not None and value.startswith("-"):
        raise UsageError(f"{value!r} is no {what}.", hint="A name does not begin with a dash.")
