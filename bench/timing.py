"""Samples of a duration, and a progress line on the terminal."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

TELL_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Several measurements of the same duration."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Sample:
        return cls(tuple(values))

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def quartiles(self) -> tuple[float, float]:
        """Half of the values are between these two."""
        if self.n < 2:
            return self.values[0], self.values[0]
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high

    def spread(self, scale: float = 1.0, spec: str = ".0f") -> str:
        low, high = self.quartiles()
        return f"{low * scale:{spec}} to {high * scale:{spec}}"


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def counted(what: str, number: int) -> Iterator[int]:
    """The numbers from 0 to `number` - 1, with a line of progress now and then."""
    told = time.monotonic()
    for done in range(number):
        yield done
        if time.monotonic() - told > TELL_EVERY_S:
            told = time.monotonic()
            tell(f"  {what}: {done + 1} of {number}")


def ratios(of: Sequence[float], to: Sequence[float]) -> Sample:
    """The ratio of each pair. The two of a pair were run one after the other."""
    return Sample.of(one / other for one, other in zip(of, to, strict=True))
