"""Quantiles that intervals of any level need. Python's own library has only the normal distribution's."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable


def _student_cdf(t: float, freedom: int) -> float:
    """Student's distribution by its finite series for whole degrees of freedom (Abramowitz and Stegun
    26.7.3 and 26.7.4)."""
    theta = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(theta), math.sin(theta)
    is_odd = freedom % 2
    term = cosine if is_odd else 1.0
    total = 0.0
    for step in range(is_odd, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (step + 1) / (step + 2)
    within = 2 / math.pi * (theta + sine * total) if is_odd else sine * total
    return 0.5 + within / 2


@functools.cache
def student_t(freedom: int, level: float) -> float:
    """What Student's t exceeds with probability `level`, either way; `freedom` is at least 1."""
    wanted = 1 - level / 2
    high = 2.0
    while _student_cdf(high, freedom) < wanted:
        high *= 2
    return _bisected(lambda t: _student_cdf(t, freedom) < wanted, 0.0, high)


def _poisson_cdf(count: int, mean: float) -> float:
    term = total = math.exp(-mean)
    for n in range(1, count + 1):
        term *= mean / n
        total += term
    return total


@functools.cache
def poisson_ends(count: int, level: float) -> tuple[float, float]:
    """The exact interval of the mean of a Poisson count (Garwood 1936); of a large one by its deviation."""
    if count > 400:
        reach = statistics.NormalDist().inv_cdf(1 - level / 2) * math.sqrt(count)
        return count - reach, count + reach
    most = 2.0 * count + 60
    high = _bisected(lambda mean: _poisson_cdf(count, mean) > level / 2, 0.0, most)
    low = _bisected(lambda mean: 1 - _poisson_cdf(count - 1, mean) < level / 2, 0.0, most) if count else 0.0
    return low, high


def _bisected(is_below: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2
