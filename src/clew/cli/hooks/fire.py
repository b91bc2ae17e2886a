"""`clew hooks fire`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew.cli.options import AS_JSON
from clew.cli.output import SHORT_ID, harmless, note, plural, print_json, say
from clew.cli.session import with_client
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.client import Client
    from clew.core.hook import HookEvent
    from clew.core.job import Job
    from clew.hosts.hook_outlook import Ahead
    from clew.hosts.hook_plan import Planned, Verdict
    from clew.store.hook_rows import StoredHook

FILE_MOST = 25_000_000  # bytes: no forge sends more


@click.command()
@click.argument("file", metavar="EVENT.json")
@click.option("--forge", type=click.Choice(["github", "gitea", "forgejo"]), help="Who sent it.")
@click.option("--event", "name", metavar="NAME", help="What the forge's header calls it: issues, pull_request, push, …")
@click.option("--dry-run", is_flag=True, help="Only say who would wake, where, and with which words.")
@click.option("--wait", is_flag=True, help="Wait for the end. Without a worker, work on it here.")
@AS_JSON
def fire(file: str, forge: str | None, name: str | None, dry_run: bool, wait: bool, as_json: bool) -> int:
    """Show what an event would set going, or set it going as if the forge had just sent it.

    EVENT.json is a payload as a forge sends it, or an event as Clew keeps it (docs/hooks.md); - is stdin. Forge and
    event are read from a name like gitea.issues.opened.json where they are not given. No signature is asked for.

    The exit code is 0, also when nobody wakes; 2 when the file, the settings or a template is at fault. With --wait it
    is that of the first job that did not succeed (see `clew jobs submit`).

    \b
      clew hooks fire gitea.issues.opened.json --dry-run
      clew hooks fire payload.json --forge github --event issue_comment --dry-run --json | jq -r '.planned[].prompt'
      clew hooks fire gitea.issues.opened.json --wait
    """
    if dry_run and wait:
        raise UsageError("A dry run has nothing to wait for.", hint="Leave out --dry-run or --wait.")
    raw = _read(file)

    async def work(client: Client) -> int:
        from clew.core.hook import Forge
        from clew.hosts.hook_file import Source, event_in, guessed

        shown = "stdin" if file == "-" else file
        source = guessed(Source(shown, Forge(forge) if forge else None, name), "" if file == "-" else Path(file).name)
        told = event_in(raw, source, f"fired-{client.engine.around.new_id()}")
        if told is None:
            return _nothing(source.event or "?", as_json=as_json)
        if dry_run:
            return await _dry_run(client, told, as_json=as_json)
        return await _fire(client, told, wait=wait, as_json=as_json)

    return with_client(work)


def _read(file: str) -> bytes:
    from clew.hosts.checks import named_path

    try:
        raw = sys.stdin.buffer.read(FILE_MOST + 1) if file == "-" else _bytes_of(named_path(file))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
    if len(raw) > FILE_MOST:
        raise UsageError(f"{file} is longer than {FILE_MOST:,} bytes: no forge sends that.")
    return raw


def _bytes_of(path: Path) -> bytes:
    with path.open("rb") as handle:
        return handle.read(FILE_MOST + 1)


def _nothing(event: str, *, as_json: bool) -> int:
    why = f"{event} of this kind is nothing to Clew"
    if as_json:
        print_json(
            {"event": None, "id": None, "state": "ignored", "why": why, "planned": [], "dropped": [], "jobs": []}
        )
    else:
        say(f"nobody wakes: {harmless(why)}")
    return 0


async def _dry_run(client: Client, told: HookEvent, *, as_json: bool) -> int:
    from clew.hosts.hook_outlook import look_ahead

    verdict = await client.hooks.judge(told)
    ahead = [await look_ahead(client.engine, planned) for planned in verdict.planned]
    if as_json:
        print_json(
            {
                "event": told.as_dict() | {"delivery": None},
                "id": None,
                "state": "dry run",
                "why": None if verdict.planned or verdict.dropped else verdict.ignored,
                "planned": [_object(client, *each) for each in zip(verdict.planned, ahead, strict=True)],
                "dropped": list(verdict.dropped),
                "jobs": [],
            }
        )
        return 0
    say(f"event    {_event_words(told)}")
    _say_verdict(verdict)
    for planned, each in zip(verdict.planned, ahead, strict=True):
        for label, words in _facts(client, planned, each):
            say(f"{label:<9}{harmless(words)}")
        say(f"prompt   {plural(len(each.prompt), 'character')}:\n")
        say("\n".join(f"  {line}" for line in harmless(each.prompt).split("\n")))
    note("a dry run: nothing was stored, and nobody was woken")
    return 0


def _say_verdict(verdict: Verdict) -> None:
    for key in verdict.dropped:
        say(f"drops    {key}: its session ends, and its work tree is removed, or archived when it is not clean")
    if not verdict.planned and not verdict.dropped:
        say(f"nobody   wakes: {harmless(verdict.ignored or '-')}")


def _event_words(told: HookEvent) -> str:
    place = f"{told.repo}#{told.number}" if told.number is not None else f"{told.repo} {told.branch or ''}".strip()
    return harmless(f"{told.kind} in {place}, by {told.actor} ({told.forge})")


def _facts(client: Client, planned: Planned, ahead: Ahead) -> list[tuple[str, str]]:
    from clew.cli.display import meaning

    agent, rule = planned.agent, planned.match.rule
    session = "resumed, with the delta"
    if not ahead.resumes:
        session = f"fresh, with the full text: {meaning(ahead.reason)}"
    if ahead.told_before:
        session += f"; {plural(ahead.told_before, 'turn')} of the thread go along"
    cli = " ".join(part for part in (agent.agent, agent.model) if part)
    by = f"number {_number(client, planned)}" + (f", by {rule.command}" if rule.command else "")
    pairs = [
        ("wakes", f"{agent.name}: {cli}, {agent.permissions}"),
        ("rule", by),
        ("key", planned.key),
        ("in", planned.cwd),
        ("session", session),
    ]
    if ahead.jobs_before:
        pairs.append(("after", f"{plural(ahead.jobs_before, 'job')} of this key: the session may be another one then"))
    if rule.comment:
        pairs.append(("then", "its final words are posted as a comment"))
    return pairs


def _number(client: Client, planned: Planned) -> int:
    return client.hooks.settings.rules.index(planned.match.rule) + 1


def _object(client: Client, planned: Planned, ahead: Ahead) -> dict[str, Any]:
    return {
        "key": planned.key,
        "agent": planned.agent.name,
        "cli": planned.agent.agent,
        "model": planned.agent.model,
        "permissions": planned.agent.permissions.value,
        "rule": _number(client, planned),
        "command": planned.match.command,
        "work_tree": planned.cwd,
        "resumes": ahead.resumes,
        "reason": ahead.reason,
        "jobs_before": ahead.jobs_before,
        "comment": planned.match.rule.comment,
        "prompt": ahead.prompt,
    }


async def _fire(client: Client, told: HookEvent, *, wait: bool, as_json: bool) -> int:
    from clew.job import workers

    alive = await workers(client)
    hooks = client.hooks  # what is wrong with the settings is said before anything is stored
    received = await hooks.receive(told)
    if not wait:
        if as_json:
            print_json(_stored_object(told, received.id, None))
        else:
            say(received.id)
            note(f"received: {_event_words(told)}; clew hooks events shows what becomes of it")
        if not alive:
            note("no worker is alive to take it up: start clew serve or clew work, or fire with --wait")
        return 0
    await hooks.deal_with(received.id)
    stored = await client.engine.database.call(lambda store: store.hook_event(received.id))
    assert stored is not None
    code = await _follow(client, stored, in_place=not alive, quiet=as_json)
    if as_json:
        print_json(_stored_object(told, received.id, stored, [await _job(client, each) for each in stored.jobs]))
    return code


async def _follow(client: Client, stored: StoredHook, *, in_place: bool, quiet: bool) -> int:
    """Every job that came of it, one after the other; the exit code of the first that did not succeed."""
    from clew.cli.jobs_watch import wait_for

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
            await client.hooks.post(job_id)
    return code


async def _ended(client: Client, job: Job, *, in_place: bool) -> int:
    """The exit code; stdout is for the object alone."""
    from clew.job import error_of, follow

    if in_place:
        await client.carry_out(job.id)
    else:
        async for _ in follow(client, job.id):
            pass
    error = error_of(await client.jobs.find(job.id))
    return 0 if error is None else error.exit_code


async def _job(client: Client, job_id: str) -> dict[str, Any]:
    from clew.cli.output import stamp
    from clew.job import card

    return (await card(client, job_id)).to_json(stamp)


def _stored_object(
    told: HookEvent, hook_id: str, stored: StoredHook | None, jobs: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {
        "event": told.as_dict(),
        "id": hook_id,
        "state": stored.state if stored else "received",
        "why": stored.why if stored else None,
        "planned": [],
        "dropped": [],
        "jobs": jobs or [],
    }
