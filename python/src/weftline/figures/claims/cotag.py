"""The claims of COTAG, whose figures print no numbers.

Each is tested as printed, with our gateway, which has a queue and forwards what need not wait, and against
a MuSher that knows the radios' ratio from earlier connections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..verdict import Ratios, Test, above, at_least, at_most, below, differences, every, more, ratios, unknown
from ._runs import Claim, Pairs, Record, Runs, time_s
from .fbdt import goodput

_DELAYS = ("0ms", "5ms", "10ms", "20ms", "40ms")
_ERRORS = {"0.0": "without packet errors", "0.00001": "with 0.001 % of packet errors"}
_LEAST, _MOST = 1.1, 0.75
_SCHEMES = ("cotag", "musher")


@dataclass(frozen=True)
class _Way:
    """What a claim is tested on."""

    suffix: str
    sweep: dict[str, str]
    words: str


_WAYS = [
    _Way("", {"cotag-fig5": "cotag-printed", "cotag-fig6": "cotag-printed"},
         "as printed: a gateway without a queue, T = 2 ms, all cohorts wait for their end"),
    _Way(".queue", {"cotag-fig5": "cotag-fig5", "cotag-fig6": "cotag-fig6"},
         "a gateway with a queue and cut-through; MuSher begins at 50 : 50"),
    _Way(".warm", {"cotag-fig5": "cotag-warm", "cotag-fig6": "cotag-warm"},
         "the same; MuSher begins at the ratio that earlier connections have found"),
]
_CONDITIONS = "CUBIC, four connections, packets of 1500 bytes (the paper: 128)"


def _values(
    runs: Runs, scenario: str, scheme: str, value: Callable[[Record], float | None], loss: str, delay: str,
    unfinished: bool = False,
) -> Pairs:
    return runs.values(scenario, scheme, "cubic", value, _case(loss, delay), unfinished)


def _case(loss: str, delay: str) -> dict[str, str]:
    return {"loss": loss, "delay": delay, "connections": "4"}


def _beside_musher(scenario: str, loss: str) -> Callable[[Runs], Test]:
    is_time = scenario == "cotag-fig6"
    value = time_s if is_time else goodput

    def test(runs: Runs) -> Test:
        tests = []
        for delay in _DELAYS:
            cotag, musher = (
                _values(runs, scenario, scheme, value, loss, delay, unfinished=is_time) for scheme in _SCHEMES)
            what = f"COTAG ÷ MuSher, {'time for 1 Gb' if is_time else 'throughput'}, {delay}"
            quotients = ratios(cotag, musher)
            if not is_time:
                tests.append(above(what, quotients, _LEAST))
            elif runs.has_unfinished(scenario, "cotag", "cubic", _case(loss, delay)):
                # It takes longer than it had, and MuSher may have, too.
                test = below(what, quotients, _MOST)
                musher_ended = not runs.has_unfinished(scenario, "musher", "cubic", _case(loss, delay))
                tests.append(at_least(test) if musher_ended else unknown(f"{what}: neither was finished"))
            elif runs.has_unfinished(scenario, "musher", "cubic", _case(loss, delay)):
                # It takes longer than it had: the ratio is at most that.
                tests.append(at_most(below(what, quotients, _MOST)))
            else:
                tests.append(below(what, quotients, _MOST))
        return every(tests)

    return test


def _falls(runs: Runs, loss: str) -> Test:
    """Whether both carry less at 40 ms than at 0."""
    return every(
        below(f"{scheme}, throughput at 40 ms ÷ 0 ms", Ratios(ratio for _, ratio in _far_to_near(runs, scheme, loss)), 1)
        for scheme in _SCHEMES)


def _far_to_near(runs: Runs, scheme: str, loss: str) -> Pairs:
    """By seed, the throughput at 40 ms ÷ at 0."""
    far, near = (_by_seed(_values(runs, "cotag-fig5", scheme, goodput, loss, delay)) for delay in ("40ms", "0ms"))
    divisors = dict(near)
    return [(seed, value / divisors[seed]) for seed, value in far if divisors.get(seed)]


def _by_seed(pairs: Pairs) -> Pairs:
    """Without the case, which differs."""
    return [(key[0], value) for key, value in pairs if isinstance(key, tuple)]


def _more_vulnerable(runs: Runs) -> Test:
    """Whether errors make both lose more by the delay."""
    tests = []
    for scheme in _SCHEMES:
        without, with_errors = (_far_to_near(runs, scheme, loss) for loss in _ERRORS)
        tests.append(more(f"{scheme}, 40 ms ÷ 0 ms, without errors − with", differences(without, with_errors), 0))
    return every(tests)


def _claims() -> list[Claim]:
    claims = []
    for letter, (loss, errors) in zip("ab", _ERRORS.items()):
        for number, scenario, sentence, limit in (
            ("5", "cotag-fig5", "COTAG significantly enhances TCP's short-term throughput",
             f"throughput ÷ MuSher's at least {_LEAST}"),
            ("6", "cotag-fig6", "COTAG has much smaller latency than MuSher", f"time for 1 Gb ÷ MuSher's below {_MOST}"),
        ):
            for way in _WAYS:
                claims.append(Claim(
                    f"{number}{letter}{way.suffix}", "COTAG", f"§IV-B, Fig. {number}{letter}", f"{sentence}, {errors}.",
                    f"{limit} at each delay; {way.words}; {_CONDITIONS}", way.sweep[scenario],
                    _beside_musher(scenario, loss), is_variant=bool(way.suffix)))
    claims.sort(key=lambda claim: claim.name)
    return [
        *claims,
        Claim("5c", "COTAG", "§IV-B", "As the delay in the network grows, the impact of the channel fluctuations and "
              "bandwidth unbalance degrades TCP performance more severely.", "throughput at 40 ms ÷ at 0 ms below 1, COTAG and MuSher, without "
              f"errors; {_WAYS[0].words}", "cotag-printed", lambda runs: _falls(runs, "0.0")),
        Claim("5d", "COTAG", "§IV-B", "With additional impact from PER, TCP performance is more vulnerable as the network "
              "delay increases.",
              "throughput at 40 ms ÷ at 0 ms is less with errors than without, COTAG and MuSher", "cotag-printed",
              _more_vulnerable),
    ]


COTAG: list[Claim] = _claims()
