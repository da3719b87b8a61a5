"""Tests of claims on runs of several seeds: true, false, or undecided where an interval does not say.

A mean is compared with a limit by its 95 % interval over seeds (Student's t), two schemes by the
interval of their paired difference, or of the logarithm of their paired ratio, seed by seed: one seed of
which a scheme does a fiftieth does not decide a mean of ratios alone. One run has no interval and decides
nothing.

A claim of several parts holds if each part does, each at 95 %: no part can make it hold by chance alone.
It fails if any part fails, and of sixty parts three would by chance alone: so a part makes it fail at a
level of 5 % divided by their number (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ._quantiles import poisson_ends, student_t

LEVEL = 0.05


@dataclass(frozen=True)
class Finding:
    """What a test says: `True`, `False` or `None` (undecided), and the figure that decided."""

    holds: bool | None
    figure: str
    # How far the mean is from the limit, in half-widths of its interval at 95 %.
    distance: float = 0.0
    # Of how many parts that hold, of which the figure is the narrowest.
    parts: int = 1

    @property
    def words(self) -> str:
        """The figure, and how many more there are."""
        return self.figure + (f" (and {self.parts - 1} more)" if self.parts > 1 else "")

    @property
    def verdict(self) -> str:
        """In words."""
        return {True: "holds", False: "does not hold", None: "undecided"}[self.holds]


@dataclass(frozen=True)
class Test:
    """A statement on runs. `decide` has two levels: that at which it may say that the statement holds, and
    that at which it may say that it does not."""

    __test__ = False  # It is none of pytest's.

    decide: Callable[[float, float], Finding]

    def judge(self) -> Finding:
        """What the runs say of it."""
        return self.decide(LEVEL, LEVEL)


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


class Ratios(list[float]):
    """Paired ratios, whose mean is the geometric one."""


@dataclass(frozen=True)
class _Mean:
    values: tuple[float, ...]
    are_counts: bool
    are_gaps: bool
    are_ratios: bool

    @property
    def mean(self) -> float:
        """Arithmetic, of ratios geometric."""
        if self.are_ratios and not self._is_constant():
            return math.exp(sum(map(math.log, self.values)) / len(self.values))
        # A sum of equal values is not always as many times one.
        return self.values[0] if self._is_constant() else sum(self.values) / len(self.values)

    def ends(self, level: float) -> tuple[float, float]:
        count = len(self.values)
        if count == 1:
            return -math.inf, math.inf
        if self._is_constant() and self.are_counts:
            # Student's t of equal counts has no width, and three runs without an event do not show
            # that there is none.
            total = round(abs(sum(self.values)))
            low, high = poisson_ends(total, level)
            above_it = (high - total) / count
            # A difference has at least the width of as many events, on either side.
            below_it = above_it if self.are_gaps else (total - low) / count
            return self.mean - below_it, self.mean + above_it
        if self._is_constant():
            return self.mean, self.mean
        values = [math.log(value) for value in self.values] if self.are_ratios else self.values
        mean = sum(values) / count
        squares = sum((value - mean) ** 2 for value in values)
        reach = student_t(count - 1, level) * math.sqrt(squares / (count - 1) / count)
        low, high = mean - reach, mean + reach
        return (_exp(low), _exp(high)) if self.are_ratios else (low, high)

    def distance(self, limit: float) -> float:
        """From the mean to a limit, in half-widths; of ratios in those of the logarithm."""
        ends = self.ends(LEVEL)
        if self.are_ratios and limit > 0 and ends[0] > 0:
            values = [self.mean, limit, *ends]
            mean, limit, low, high = (math.log(min(value, 1e300)) for value in values)
        else:
            mean, (low, high) = self.mean, ends
        return abs(mean - limit) / max((high - low) / 2, 1e-12)

    def _is_constant(self) -> bool:
        return len(set(self.values)) == 1

    def __str__(self) -> str:
        count = len(self.values)
        if count == 1:
            return f"{self.mean:.3g} (one run)"
        if self.are_ratios and not self._is_constant():
            low, high = self.ends(LEVEL)
            return f"{self.mean:.3g} ({low:.3g} to {high:.3g}), n = {count}"
        if not self._is_constant():
            return f"{self.mean:.3g} ± {self.ends(LEVEL)[1] - self.mean:.2g}, n = {count}"
        if self.are_counts:
            low, high = self.ends(LEVEL)
            return f"{self.mean:.3g} in each of {count} runs, {low:.2g} to {high:.2g}"
        return f"{self.mean:.3g}, the same in {count} runs"


def _compared(
    what: str, values: Sequence[float], limit: float, are_counts: bool, are_gaps: bool,
    is_so: Callable[[float, float], bool], is_not: Callable[[float, float], bool],
) -> Test:
    """A test of the ends of an interval."""

    def decide(holds: float, fails: float) -> Finding:
        if not values:
            return Finding(None, f"{what}: no runs")
        are_ratios = isinstance(values, Ratios)
        if are_ratios and not (min(values) > 0 and max(values) < math.inf):
            # One side carried nothing: that is no ratio, and no run to leave out either.
            none = sum(not 0 < value < math.inf for value in values)
            return Finding(None, f"{what}: {none} of {len(values)} pairs have no ratio, limit {limit:g}")
        mean = _Mean(tuple(values), are_counts, are_gaps, are_ratios)
        figure = f"{what}: {mean}, limit {limit:g}"
        verdict = True if is_so(*mean.ends(holds)) else False if is_not(*mean.ends(fails)) else None
        return Finding(verdict, figure, mean.distance(limit))

    return Test(decide)


def below(what: str, values: Sequence[float], limit: float, counts: bool = False) -> Test:
    """Whether a mean is below a limit. `counts`: the values are numbers of events."""
    return _compared(
        what, values, limit, counts, False, lambda _, high: high < limit, lambda low, _: low >= limit)


def above(what: str, values: Sequence[float], limit: float, counts: bool = False) -> Test:
    """Whether a mean is at least a limit."""
    return negation(below(what, values, limit, counts))


def more(what: str, values: Sequence[float], limit: float, counts: bool = False) -> Test:
    """Whether a mean is above a limit: equal is not more. `counts`: the values are differences of numbers of
    events."""
    return _compared(
        what, values, limit, counts, True, lambda low, _: low > limit, lambda _, high: high <= limit)


def within(what: str, values: Sequence[float], low: float, high: float) -> Test:
    """Whether a mean is between two limits."""
    return every([above(what, values, low), below(what, values, high)])


def known(what: str, mean: float, half_width: float | None, freedom: int, limit: float) -> Test:
    """Whether a mean is above a limit, of which the interval at 95 % is known, by Student's t with that many
    degrees of freedom."""

    def decide(holds: float, fails: float) -> Finding:
        if half_width is None or freedom < 1:
            return Finding(None, f"{what}: {mean:.3g} (no interval), limit {limit:g}")

        def reach(level: float) -> float:
            return half_width * student_t(freedom, level) / student_t(freedom, LEVEL)

        figure = f"{what}: {mean:.3g} ± {half_width:.2g}, limit {limit:g}"
        verdict = True if mean - reach(holds) > limit else False if mean + reach(fails) <= limit else None
        return Finding(verdict, figure, abs(mean - limit) / max(half_width, 1e-12))

    return Test(decide)


def at_most(test: Test) -> Test:
    """A test of values that are too high if anything: it can show that something is below, and not that it
    is not."""

    def decide(holds: float, fails: float) -> Finding:
        found = test.decide(holds, fails)
        return replace(found, holds=found.holds or None, figure=f"{found.figure} (at most: MuSher was not finished)")

    return Test(decide)


def at_least(test: Test) -> Test:
    """A test of values that are too low if anything: it can show that something is not below."""

    def decide(holds: float, fails: float) -> Finding:
        found = test.decide(holds, fails)
        is_so = None if found.holds else found.holds
        return replace(found, holds=is_so, figure=f"{found.figure} (at least: COTAG was not finished)")

    return Test(decide)


def unknown(why: str) -> Test:
    """What nothing is known of."""
    return Test(lambda holds, fails: Finding(None, why))


def negation(test: Test) -> Test:
    """The opposite."""

    def decide(holds: float, fails: float) -> Finding:
        found = test.decide(fails, holds)
        return replace(found, holds=None if found.holds is None else not found.holds)

    return Test(decide)


def every(tests: Iterable[Test]) -> Test:
    """Whether all hold. The figure is of the part that fails most clearly, else of the first that is
    undecided, else of the one that holds most narrowly."""
    parts = list(tests)

    def decide(holds: float, fails: float) -> Finding:
        if not parts:
            return Finding(None, "no runs")
        found = [part.decide(holds, fails / len(parts)) for part in parts]
        failing = [one for one in found if one.holds is False]
        if failing:
            return replace(max(failing, key=lambda one: one.distance), parts=1)
        undecided = next((one for one in found if one.holds is None), None)
        if undecided:
            return undecided
        narrowest = min(found, key=lambda one: one.distance)
        return replace(narrowest, parts=sum(one.parts for one in found))

    return Test(decide)


def some(tests: Iterable[Test]) -> Test:
    """Whether any holds."""
    return negation(every(negation(test) for test in tests))


def ratios(above_: Sequence[tuple[object, float]], below_: Sequence[tuple[object, float]]) -> Ratios:
    """Pairs of one key, divided; infinite where the divisor is nothing."""
    divisors = dict(below_)
    pairs = [(value, divisors[key]) for key, value in above_ if key in divisors]
    return Ratios(value / divisor if divisor else math.inf for value, divisor in pairs)


def differences(more_: Sequence[tuple[object, float]], less_: Sequence[tuple[object, float]]) -> list[float]:
    """Pairs of one key, subtracted."""
    others = dict(less_)
    return [value - others[key] for key, value in more_ if key in others]
