"""The command `clew doctor`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import current_directory, load_asyncio_quickly
from clew.cli.options import AS_JSON
from clew.cli.ui.formatting import harmless, joined, one_line, plural
from clew.cli.ui.printing import print_json, say
from clew.cli.ui.state_labels import WHO_RECOVERS
from clew.errors import AgentMissing

if TYPE_CHECKING:
    from clew.api.wire.setup import DoctorAgent, DoctorReport

LINE_CHARS = 1000


@click.command()
@AS_JSON
def doctor(as_json: bool) -> int:
    """Check agents, store and settings. Exit code 0: no problem; 3: the agent was not found; 1: another problem."""
    load_asyncio_quickly()
    import asyncio

    from clew.api.doctor import diagnose

    found = asyncio.run(diagnose(os.environ, current_directory()))
    if as_json:
        print_json(found.report.to_json())
    else:
        _show(found.report)
    if found.agent_missing:
        return AgentMissing.exit_code
    return 0 if found.report.ok else 1


def _show(report: DoctorReport) -> None:
    for agent in report.agents:
        what = joined(agent.product, agent.version, by=" ")
        by = f"{harmless(agent.path)} (by {agent.found_by})"
        say(f"agent   {agent.name}  {f'{harmless(what)}  ' if what else ''}{by}")
        if agent.resume is not None:
            say(f"        {_abilities(agent)}")
            say("        login: not checked (only a turn can check it)")
    say(f"store   {harmless(report.store.path)}")
    for name, path in (("yours", report.config.user_file), ("this directory's", report.config.project_file)):
        say(f"config  {name}: {harmless(path) if path else 'none'}")
    if report.runs is not None:
        runs, left = report.runs, report.runs.left_by_a_crash
        say(
            f"runs    {runs.active} active, {runs.free_slots} of {runs.max_agents} agent slots free"
            + (f", {left} left by a crash ({WHO_RECOVERS})" if left else "")
        )
    for note in report.notes:
        say(f"note    {one_line(note, LINE_CHARS)}")
    if report.ok:
        say("no problems found")
        return
    say(f"\n{plural(len(report.problems), 'problem')}")
    for each in report.problems:
        say(f"  {one_line(each.problem, LINE_CHARS)}\n    -> {one_line(each.fix, LINE_CHARS)}")


def _abilities(agent: DoctorAgent) -> str:
    return ", ".join(
        (
            "resumes sessions" if agent.resume else "CANNOT resume sessions",
            "lets Clew choose a session's id" if agent.choose_id else "names its sessions itself",
            "asks for permissions" if agent.asks else "cannot ask for permissions: only its sandbox limits it",
        )
    )
