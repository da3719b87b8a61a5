"""Tests of claims on runs of several seeds: true, false, or undecided where an interval does not say.

A mean is compared with a limit by its 95 % interval over seeds (Student's t), two schemes by the
interval of their paired difference or ratio, seed by seed. One run has no interval and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .. import _weftline


@dataclass(frozen=True)
class Finding:
    """What a test says: `True`, `False` or `None` (undecided), and the figure that decided."""

    holds: bool | None
    figure: str

    @property
    def verdict(self) -> str:
        """In words."""
        return {True: "holds", False: "does not hold", None: "undecided"}[self.holds]


def _interval(values: Sequence[float]) -> tuple[float, float, str] | None:
    """The ends of the interval, and how it is written."""
    found = _weftline.mean_ci95(list(values))
    if found is None:
        return None
    mean, half_width, count = found
    if half_width is None:
        return float("-inf"), float("inf"), f"{mean:.3g} (one run)"
    return mean - half_width, mean + half_width, f"{mean:.3g} ± {half_width:.2g}, n = {count}"


def below(what: str, values: Sequence[float], limit: float) -> Finding:
    """Whether a mean is below a limit."""
    interval = _interval(values)
    if interval is None:
        return Finding(None, f"{what}: no runs")
    low, high, text = interval
    figure = f"{what}: {text}, limit {limit:g}"
    return Finding(True if high < limit else False if low >= limit else None, figure)


def above(what: str, values: Sequence[float], limit: float) -> Finding:
    """Whether a mean is at least a limit."""
    return negation(below(what, values, limit))


def within(what: str, values: Sequence[float], low: float, high: float) -> Finding:
    """Whether a mean is between two limits."""
    return every([above(what, values, low), below(what, values, high)])


def negation(finding: Finding) -> Finding:
    """The opposite."""
    return Finding(None if finding.holds is None else not finding.holds, finding.figure)


def every(findings: Iterable[Finding]) -> Finding:
    """Whether all hold: the first that does not decides, else the first that is undecided."""
    all_findings = list(findings)
    for wanted in (False, None):
        for finding in all_findings:
            if finding.holds is wanted:
                return finding
    if not all_findings:
        return Finding(None, "no runs")
    more = f" (and {len(all_findings) - 1} more)" if len(all_findings) > 1 else ""
    return Finding(True, all_findings[0].figure + more)


def some(findings: Iterable[Finding]) -> Finding:
    """Whether any holds."""
    return negation(every(negation(finding) for finding in findings))


def ratios(above_: Sequence[tuple[object, float]], below_: Sequence[tuple[object, float]]) -> list[float]:
    """Pairs of one key, divided."""
    divisors = dict(below_)
    return [value / divisors[key] for key, value in above_ if divisors.get(key)]


def differences(more: Sequence[tuple[object, float]], less: Sequence[tuple[object, float]]) -> list[float]:
    """Pairs of one key, subtracted."""
    others = dict(less)
    return [value - others[key] for key, value in more if key in others]
