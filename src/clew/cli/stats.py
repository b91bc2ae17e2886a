"""The command `clew stats`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.command_groups import SuggestingGroup
from clew.cli.options import AS_JSON, SINCE, complete_thread
from clew.cli.reviews.measures import reviews
from clew.cli.ui.formatting import NO_PRICE, dollars, plural
from clew.cli.ui.printing import note, print_json, say
from clew.core.costs.savings import Savings, total_savings
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client

SMALLEST_SHOWN_USD = 0.00005  # a smaller difference is not shown


@click.group(cls=SuggestingGroup, invoke_without_command=True, subcommand_metavar="[COMMAND]")
@click.option("--thread", metavar="NAME", shell_complete=complete_thread, help="Only this thread.")
@SINCE
@AS_JSON
@click.pass_context
def stats(ctx: click.Context, thread: str | None, since: float | None, as_json: bool) -> None:
    """Show how often sessions were resumed, and why not; tokens and cost; and what other ways would have cost.

    The other ways are: the whole transcript in a fresh session every turn, and a plain --resume of the agent's own
    session every turn. Both are estimates; a run without an estimate counts with what it cost.
    """
    if ctx.invoked_subcommand is not None:
        if thread is not None or since is not None or as_json:
            name = ctx.invoked_subcommand
            raise UsageError(
                f"These options do not belong to {name}.", hint=f"Give the options of {name} after it: {name} --json."
            )
        return

    async def work(client: Client) -> None:
        of_thread = await client.find(thread) if thread is not None else None
        after = time.time() - since if since is not None else None
        savings = total_savings(await client.stats(thread=of_thread, since=after))
        if as_json:
            print_json(_object(savings))
        elif not savings.runs:
            note("No runs yet.")
        else:
            _show(savings)

    with_client(work, reads=True)


stats.add_command(reviews)


def _show(savings: Savings) -> None:
    from clew.cli.ui.run_display import meaning

    rate = savings.resume_rate
    share = f" ({rate:.0%} resumed)" if rate is not None else ""
    say(f"{plural(savings.runs, 'run')}{share}")
    say(f"  {savings.resumed:>6,}  resumed")
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
