"""The command `clew hooks fire`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON
from clew.cli.ui.formatting import agent_words, harmless, plural
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.run_display import meaning
from clew.core.hooks.hook import MAX_EVENT_BYTES
from clew.core.ids import SHORT_ID
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.hooks import EventFile, StoredHook
    from clew.api.wire.hook_preview import HookPreview, PlannedHookJob
    from clew.core.hooks.hook import HookEvent
    from clew.core.jobs.job import Job


@click.command()
@click.argument("file", metavar="EVENT.json")
@click.option("--forge", type=click.Choice(["github", "gitea", "forgejo"]), help="The forge that sent it.")
@click.option(
    "--event", "name", metavar="NAME", help="The event's name in the forge's header: issues, pull_request, push, …"
)
@click.option("--dry-run", is_flag=True, help="Only show which agent would be woken, where, and with which prompt.")
@click.option("--wait", is_flag=True, help="Wait until its jobs are over. If no worker is alive, run them here.")
@AS_JSON
def fire(file: str, forge: str | None, name: str | None, dry_run: bool, wait: bool, as_json: bool) -> int:
    """Show what an event would start, or handle it as if the forge had just sent it.

    EVENT.json is a payload as a forge sends it, or an event as Clew stores it (docs/hooks.md); - is stdin. If forge and
    event are not given, they are read from a name like gitea.issues.opened.json. No signature is needed.

    The exit code is 0, even if no agent is woken; 2 if the file, the settings or a template has a mistake. With --wait
    it is that of the first job that did not succeed (see `clew jobs submit`).

    \b
      clew hooks fire gitea.issues.opened.json --dry-run
      clew hooks fire payload.json --forge github --event issue_comment --dry-run --json | jq -r '.planned[].prompt'
      clew hooks fire gitea.issues.opened.json --wait
    """
    if dry_run and wait:
        raise UsageError("A dry run has nothing to wait for.", hint="Leave out --dry-run or --wait.")
    raw = _read(file)

    async def work(client: Client) -> int:
        from clew.api.hooks import read_event
        from clew.core.hooks.hook import Forge

        shown = "stdin" if file == "-" else file
        given = read_event(client, raw, shown, forge=Forge(forge) if forge else None, event=name)
        if given.event is None:
            if as_json:
                print_json(_result(None, None, "ignored", given.why))
            else:
                say(f"no agent is woken: {harmless(given.why or '-')}")
            return 0
        if dry_run:
            return await _dry_run(client, given, given.event, as_json=as_json)
        return await _fire(client, given.event, wait=wait, as_json=as_json)

    return with_client(work)


def _read(file: str) -> bytes:
    from clew.api.files import named_path

    try:
        with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else named_path(file).open("rb") as stream:
            raw = stream.read(MAX_EVENT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
    if len(raw) > MAX_EVENT_BYTES:
        raise UsageError(f"{file} is longer than {MAX_EVENT_BYTES:,} bytes, the limit for an event.")
    return raw


def _result(
    event: HookEvent | None,
    hook_id: str | None,
    state: str,
    why: str | None,
    *,
    planned: Sequence[dict[str, Any]] = (),
    dropped: Sequence[str] = (),
    jobs: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    return {
        "event": None if event is None else event.as_dict(),
        "id": hook_id,
        "state": state,
        "why": why,
        "planned": planned,
        "dropped": dropped,
        "jobs": jobs,
    }


async def _dry_run(client: Client, given: EventFile, event: HookEvent, *, as_json: bool) -> int:
    from clew.api.hooks import preview

    found = await preview(client, given)
    if as_json:
        jobs = [each.to_json() for each in found.planned]
        result = _result(event, None, "dry run", found.why, planned=jobs, dropped=found.dropped)
        print_json(result | {"event": found.event})
        return 0
    say(f"event    {_event_words(event)}")
    _say_plan(found)
    for planned in found.planned:
        for label, words in _details(planned):
            say(f"{label:<9}{harmless(words)}")
        say(f"prompt   {plural(len(planned.prompt), 'character')}:\n")
        say("\n".join(f"  {line}" for line in harmless(planned.prompt).split("\n")))
    note("a dry run: nothing was stored, and no agent was woken")
    return 0


def _say_plan(found: HookPreview) -> None:
    for key in found.dropped:
        say(f"drops    {key}: its session ends, and its work tree is removed, or archived if it is not clean")
    if not found.planned and not found.dropped:
        say(f"wakes    no agent: {harmless(found.why or '-')}")


def _event_words(event: HookEvent) -> str:
    place = f"{event.repo}#{event.number}" if event.number is not None else f"{event.repo} {event.branch or ''}".strip()
    return harmless(f"{event.kind} in {place}, by {event.actor} ({event.forge})")


def _details(planned: PlannedHookJob) -> list[tuple[str, str]]:
    session = "resumed, with the delta"
    if not planned.resumes:
        session = f"fresh, with the full text: {meaning(planned.reason)}"
    if planned.turns_sent:
        session += f"; {plural(planned.turns_sent, 'turn')} of the thread are sent with it"
    by = f"number {planned.rule}" + (f", by {planned.rule_command}" if planned.rule_command else "")
    details = [
        ("wakes", f"{planned.agent}: {agent_words(planned.cli, planned.model)}, {planned.permissions}"),
        ("rule", by),
        ("key", planned.key),
        ("in", planned.work_tree),
        ("session", session),
    ]
    if planned.jobs_before:
        details.append(("after", f"{plural(planned.jobs_before, 'job')} of this key: they may change the session"))
    if planned.comment:
        details.append(("then", "its final answer is posted as a comment"))
    return details


async def _fire(client: Client, event: HookEvent, *, wait: bool, as_json: bool) -> int:
    from clew.api.jobs import workers

    alive = await workers(client)
    hooks = client.hooks  # if the settings have a mistake, this raises before anything is stored
    received = await hooks.receive(event)
    if not wait:
        if as_json:
            print_json(_result(event, received.id, "received", None))
        else:
            say(received.id)
            note(f"received: {_event_words(event)}; clew hooks events shows its state")
        if not alive:
            note("no worker is alive to handle it: start clew serve or clew work, or fire with --wait")
        return 0
    await hooks.handle(received.id)
    stored = await hooks.event(received.id)
    code = await _follow(client, stored, in_place=not alive, quiet=as_json)
    if as_json:
        from clew.api.jobs import view_job

        jobs = [(await view_job(client, job_id)).to_json() for job_id in stored.jobs]
        print_json(_result(event, received.id, stored.state, stored.why, jobs=jobs))
    return code


async def _follow(client: Client, stored: StoredHook, *, in_place: bool, quiet: bool) -> int:
    """Waits for the event's jobs, one after the other. Returns the exit code of the first that did not succeed."""
    from clew.cli.jobs.watch import wait_for

    note(f"{_event_words(stored.event)}: {stored.state}{f': {harmless(stored.why)}' if stored.why else ''}")
    if stored.state == "failed":
        return UsageError.exit_code
    code = 0
    for job_id in stored.jobs:
        job = await client.jobs.find(job_id)
        note(f"job {job_id[:SHORT_ID]} ({job.key}) runs{' here: no worker is alive' if in_place else ''}")
        if quiet:
            ended = await _ended(client, job, in_place=in_place)
        else:
            ended = await wait_for(client, job, as_json=False, in_place=in_place)
        code = code or ended
        if in_place and ended == 0:
            await client.hooks.replies.post(job_id)
    return code


async def _ended(client: Client, job: Job, *, in_place: bool) -> int:
    """Waits until the job has ended, without output; returns its exit code."""
    from clew.api.jobs import error_of, follow

    if in_place:
        await client.carry_out(job.id)
    else:
        async for _ in follow(client, job.id):
            pass
    error = error_of(await client.jobs.find(job.id))
    return 0 if error is None else error.exit_code
