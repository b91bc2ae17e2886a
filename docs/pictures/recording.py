"""A recording of a terminal as an animated SVG: frames that follow each other, without a script and without a font.

A line that stays as it was is drawn once, with the span of time in which it is shown. Where the reader asked for less
motion, only the last frame is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coloured_screen import CELL_WIDTH, EDGE, FONT, FONT_SIZE, INK, LINE_HEIGHT, PAPER

PAUSE_S = 4.0  # on the last frame, before it begins again


@dataclass
class Recording:
    rows: int
    columns: int
    title: str
    _frames: list[tuple[list[str], float]] = field(default_factory=list)

    def add(self, lines: list[str], shown_s: float) -> None:
        self._frames.append((lines, shown_s))

    def svg(self) -> str:
        lines, last = self._frames[-1]
        self._frames[-1] = (lines, last + PAUSE_S)
        starts = [sum(shown for _, shown in self._frames[:number]) for number in range(len(self._frames) + 1)]
        spans = self._spans()
        rules = [
            f".f{first}-{end}{{animation:f{first}-{end} {starts[-1]:g}s infinite step-end}}"
            f"@keyframes f{first}-{end}{{{_keyframes(starts[first] / starts[-1], starts[end] / starts[-1])}}}"
            for first, end in sorted({(first, end) for first, end, _ in spans})
            if (first, end) != (0, len(self._frames))
        ]
        still = "".join(
            f".f{first}-{end}{{animation:none;opacity:{int(end == len(self._frames))}}}"
            for first, end in sorted({(first, end) for first, end, _ in spans})
        )
        drawn = [f'<g class="f{first}-{end}">{line}</g>' for first, end, line in spans]
        width = self.columns * CELL_WIDTH + 2 * EDGE
        height = self.rows * LINE_HEIGHT + 2 * EDGE
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
                f'height="{height:g}" role="img" aria-label="{self.title}">',
                f"<style>text{{white-space:pre}}{''.join(rules)}"
                f"@media (prefers-reduced-motion:reduce){{{still}}}</style>",
                f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>',
                f'<g font-family="{FONT}" font-size="{FONT_SIZE}" fill="{INK}">',
                *drawn,
                "</g>",
                "</svg>",
                "",
            ]
        )

    def _spans(self) -> list[tuple[int, int, str]]:
        """What is drawn: in which frames, from one to before another, and which piece of SVG."""
        spans = []
        for row in range(self.rows):
            begun = 0
            for number in range(1, len(self._frames) + 1):
                line = self._frames[begun][0][row]
                if number == len(self._frames) or self._frames[number][0][row] != line:
                    if line:
                        spans.append((begun, number, line))
                    begun = number
        return spans


def _keyframes(start: float, end: float) -> str:
    """Shown from `start` to `end`, which are parts of the whole time."""
    before = "0%{opacity:0}" if start > 0 else ""
    after = f"{100 * end:.3f}%{{opacity:0}}" if end < 1 else ""
    return f"{before}{100 * start:.3f}%{{opacity:1}}{after}"
