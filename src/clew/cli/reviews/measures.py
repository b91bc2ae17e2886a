"""The command `clew stats reviews`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import client_command
from clew.cli.options import AS_JSON, SINCE
from clew.cli.ui.formatting import NO_PRICE, dollars, one_line, plural
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.tables import columns

if TYPE_CHECKING:
    from clew.api.client import Client

MODEL_CHARS = 60


@click.command()
@SINCE
@AS_JSON
@client_command(reads=True)
async def reviews(client: Client, since: float | None, as_json: bool) -> None:
    """Show how often follow-up rounds of reviews resumed, and why not; and what rounds cost either way."""
    from clew.api.wire.reviews import measures as measures_shape

    after = time.time() - since if since is not None else None
    measures = measures_shape(await client.reviews.measures(since=after)).to_json()
    if as_json:
        print_json(measures)
    elif not measures["reviews"]:
        note("No reviews yet." if since is None else "No rounds of reviews in that time.")
    else:
        for line in lines(measures):
            say(line)


def lines(measures: dict[str, Any]) -> list[str]:
    """The measures as text. What never happened is left out."""
    from clew.cli.ui.run_display import meaning
    from clew.cli.ui.status_line import clock

    reviews, rounds, asked = measures["reviews"], measures["rounds"], measures["follow_ups"]
    imported = f", {measures['imported']:,} imported" if measures["imported"] else ""
    shown = [f"{plural(reviews, 'review')}, {plural(rounds, 'round')}{imported}"]
    for number, count in measures["rounds_per_review"].items():
        shown.append(f"  {count:>6,}  with {plural(int(number), 'round')}")
    if measures["failed"]:
        shown.append(f"  {measures['failed']:>6,}  of the rounds failed")
    if not asked:
        return [*shown, "no follow-up rounds yet"]
    shown.append(f"{plural(asked, 'follow-up round')} ({measures['resume_rate']:.0%} resumed)")
    shown.append(f"  {measures['resumed']:>6,}  resumed")
    for reason, count in sorted(measures["misses"].items(), key=lambda each: (-each[1], each[0])):
        shown.append(f"  {count:>6,}  fresh: {meaning(reason)} ({reason})")
    if measures["fallbacks"]:
        share = f"{measures['fallback_share']:.0%}"
        shown.append(f"  {measures['fallbacks']:>6,}  of them in a second attempt of the same round ({share})")
    ages = measures["age_at_expiry_s"]
    if ages["count"]:
        shown.append(f"  expired sessions were {_age(ages['median'])} old (median), {_age(ages['most'])} at most")
    shown.append("by model")
    for model, each in measures["by_model"].items():
        share = f"{each['resumed']:,} of {each['follow_ups']:,} resumed ({each['resume_rate']:.0%})"
        shown.append(f"  {one_line(model, MODEL_CHARS)}: {share}")
    shown.append("a follow-up round took")
    rows = [
        [f"  {label}", f"{path['rounds']:,}", *_path(path, clock)]
        for label, path in (("resumed", measures["with_resume"]), ("fresh", measures["without_resume"]))
        if path["rounds"]
    ]
    return [*shown, columns(["", "ROUNDS", "TOKENS READ", "BY PRICE", "TIME", "COST"], rows)]


def _path(path: dict[str, Any], clock: Any) -> list[str]:
    """The cells of a row. `BY PRICE` counts a cached token by its price relative to an uncached one."""
    seconds = path["seconds_per_round"]
    return [
        f"{path['tokens_per_round']:,.0f}",
        f"{path['units_per_round']:,.0f}",
        clock(seconds) if seconds >= 60 else f"{seconds:.1f}s",
        dollars(path["cost_usd_per_round"]) if path["cost_usd_per_round"] else NO_PRICE,
    ]


def _age(seconds: float) -> str:
    return f"{seconds / 86_400:.1f} days" if seconds >= 172_800 else f"{seconds / 3_600:.1f} hours"
