"""How an agent is started to resume a session when there is no turn yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from clew.agents.adapter import LaunchProfile, PathProtection
from clew.core.pins import Pin
from clew.core.record import Record
from clew.core.thread import Thread, Trust
from clew.engine.request import TurnRequest
from clew.engine.rules.shown import shown_rules, write_copies

if TYPE_CHECKING:
    from clew.engine.engine import Engine


class ResumingStart(Record):
    launch: LaunchProfile
    environ: Mapping[str, str]


async def resuming_start(engine: Engine, thread: Thread, pin: Pin, model: str | None) -> ResumingStart:
    """As for a turn of the thread that resumes the pin's session."""
    adapter, context = engine.adapter(pin.agent), engine.context
    abilities = await engine.abilities(pin.agent, engine.find(pin.agent))
    rules = await shown_rules(adapter, abilities, TurnRequest(thread, ""), engine.store, engine.settings, context)
    rules_dir = rules.folder if await write_copies(adapter, rules) is None else ""
    launch = LaunchProfile(
        session_id=pin.session_id,
        resume=True,
        model=model,
        permissions=thread.permissions,
        trust=thread.trust,
        work_dir=thread.cwd,
        config_dir=pin.runtime.config_dir,
        hidden_paths=engine.settings.hidden,
        rules_dir=rules_dir,
        home=context.environ.get("HOME", ""),
    )
    if launch.hidden_paths and adapter.path_protection(abilities, launch.permissions) is PathProtection.SANDBOX:
        from clew.engine.process import namespaces

        launch = launch if await namespaces.available() else launch.replace(hidden_paths=())
    environ = adapter.environment(context.environ)
    if thread.trust is not Trust.PROJECT:
        environ = await context.guard(environ, thread.cwd)
    return ResumingStart(launch, environ)
