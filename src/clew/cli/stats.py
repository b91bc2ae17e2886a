"""The command `clew stats`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.command_groups import SuggestingGroup
from clew.cli.options import AS_JSON, SINCE, complete_thread
from clew.cli.reviews.measures import reviews
from clew.cli.ui.formatting import NO_PRICE, dollars, plural, price
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.tables import columns
from clew.core.costs.savings import Savings, total_savings
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.stats import GroupedStats

DIMENSIONS = ("kind", "project", "agent", "model", "day")
SMALLEST_SHOWN_USD = 0.00005  # a smaller difference is not shown


@click.group(cls=SuggestingGroup, invoke_without_command=True, subcommand_metavar="[COMMAND]")
@click.option("--thread", metavar="NAME", shell_complete=complete_thread, help="Only this thread.")
@SINCE
@click.option(
    "--by",
    type=click.Choice(DIMENSIONS),
    help="A table with a row for each kind of work (chat, job, review, hook, pair), project (repository), agent, model "
    "or day (UTC).",
)
@AS_JSON
@click.pass_context
def stats(ctx: click.Context, thread: str | None, since: float | None, by: str | None, as_json: bool) -> None:
    """Show how often sessions were resumed, and why not; tokens and cost; and what other ways would have cost.

    The other ways are: the whole transcript in a fresh session every turn, and a plain --resume of the agent's own
    session every turn. Both are estimates; a run without an estimate counts with what it cost. Turns that were made
    outside Clew are not counted: Clew neither decided nor paid for them.

    \b
      clew stats --by kind                what jobs, reviews and chats cost
      clew stats --by project --since 30d
    """
    if ctx.invoked_subcommand is not None:
        if thread is not None or since is not None or by is not None or as_json:
            name = ctx.invoked_subcommand
            raise UsageError(
                f"These options do not belong to {name}.", hint=f"Give the options of {name} after it: {name} --json."
            )
        return

    async def work(client: Client) -> None:
        of_thread = await client.find(thread) if thread is not None else None
        after = time.time() - since if since is not None else None
        if by is not None:
            from clew.api.stats import stats_by

            found = await stats_by(client, by, thread=of_thread, since=after)
            if as_json:
                print_json(found.to_shape().to_json())
            else:
                _show_groups(found)
            return
        savings = total_savings(await client.stats(thread=of_thread, since=after))
        if as_json:
            print_json(_object(savings))
        elif not savings.runs:
            note("No runs yet.")
        else:
            _show(savings)

    with_client(work, reads=True)


stats.add_command(reviews)


def _show_groups(found: GroupedStats) -> None:
    if not found.groups:
        note("No runs yet.")
        return
    rows = [[group.name or "not known", *_group_row(group.savings)] for group in found.groups]
    headings = [found.by.upper(), "RUNS", "RESUMED", "RATE", "READ", "WRITTEN", "COST", "SAVED"]
    say(columns(headings, [*rows, ["total", *_group_row(found.total)]], optional=["WRITTEN", "READ", "RESUMED"]))
    if found.total.unpriced_runs and found.total.cost_usd:
        runs = plural(found.total.unpriced_runs, "run")
        note(f"{runs} used tokens and have no price: their cost is not known, and not counted")


def _group_row(savings: Savings) -> list[str]:
    usage, rate = savings.usage, savings.resume_rate
    return [
        f"{savings.runs:,}",
        f"{savings.resumed:,}",
        "-" if rate is None else f"{rate:.0%}",
        f"{usage.shown_tokens:,}",
        f"{usage.output_tokens:,}",
        price(savings.cost_usd, used=savings.unpriced_runs > 0),
        dollars(savings.saved_usd) if abs(savings.saved_usd) >= SMALLEST_SHOWN_USD else "-",
    ]


def _show(savings: Savings) -> None:
    from clew.cli.ui.run_display import meaning

    rate = savings.resume_rate
    share = f" ({rate:.0%} resumed)" if rate is not None else ""
    say(f"{plural(savings.runs, 'run')}{share}")
    say(f"  {savings.resumed:>6,}  resumed")
    if savings.rewound:
        say(f"  {savings.rewound:>6,}  of these rewound to an earlier turn")
    for reason, count in savings.fresh.items():
        say(f"  {count:>6,}  fresh: {meaning(reason)} ({reason})")
    if savings.fallbacks:
        say(f"  {savings.fallbacks:>6,}  of these in a second attempt of the same run (a fallback)")
    if savings.runs > savings.decided:
        say(f"  {savings.runs - savings.decided:>6,}  never started")
    say("ended")
    for outcome, count in savings.outcomes.items():
        say(f"  {count:>6,}  {outcome.replace('_', ' ')}")
    usage = savings.usage
    say("tokens")
    say(f"  {usage.shown_tokens:>14,}  read, {usage.cache_read_input_tokens:,} of them cached")
    say(f"  {usage.output_tokens:>14,}  written")
    say("cost")
    if savings.cost_usd or not savings.unpriced_runs:
        say(f"  {dollars(savings.cost_usd):>14}  as the agents report it")
    if savings.unpriced_runs:
        runs = plural(savings.unpriced_runs, "run")
        say(f"  {NO_PRICE:>14}  for {runs}: the agent reports no cost, so it is not known")
    for amount, words in estimate(savings):
        say(f"  {dollars(amount):>14}  {words}")


def estimate(savings: Savings) -> list[tuple[float, str]]:
    """What transcripts would have cost, the difference, and what a plain resume would have cost, each with its label.

    Empty if neither estimate differs from what was paid."""
    difference = abs(savings.saved_usd)
    apart = abs(savings.plain_resume_usd - savings.cost_usd)
    if max(difference, apart) < SMALLEST_SHOWN_USD:
        return []
    label = _label(savings, savings.estimated_runs)
    share = f", {abs(savings.saved_share):.0%}" if savings.saved_share is not None else ""
    more = savings.saved_usd < 0
    change = "more than the transcript would have cost" if more else f"saved by resuming{share}"
    return [
        (savings.transcript_usd, f"with the whole transcript each time ({label})"),
        (difference, f"{change} ({label})"),
        (savings.plain_resume_usd, f"with a plain --resume every turn ({_label(savings, savings.plain_resume_runs)})"),
    ]


def _label(savings: Savings, runs: int) -> str:
    return "estimate" if runs == savings.runs else f"estimate of {runs:,} of {savings.runs:,} runs, the rest as paid"


def _object(savings: Savings) -> dict[str, Any]:
    return {
        "runs": savings.runs,
        "decided": savings.decided,
        "resumed": savings.resumed,
        "rewound": savings.rewound,
        "resume_rate": savings.resume_rate,
        "fresh": savings.fresh,
        "fallbacks": savings.fallbacks,
        "outcomes": savings.outcomes,
        "usage": savings.usage.as_dict(),
        "cost_usd": savings.cost_usd,
        "unpriced_runs": savings.unpriced_runs,
        "estimate": {
            "runs": savings.estimated_runs,
            "cost_usd": savings.cost_usd,
            "transcript_cost_usd": savings.transcript_usd,
            "saved_usd": savings.saved_usd,
            "saved_share": savings.saved_share,
            "plain_resume_runs": savings.plain_resume_runs,
            "plain_resume_cost_usd": savings.plain_resume_usd,
        },
    }
