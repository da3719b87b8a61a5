"""The claims of FBDT.

Where a sentence has a number, three quarters of its effect are asked for: of "20 % higher" 15 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ... import _weftline
from ..verdict import Test, above, below, every, known, ratios, some, unknown, within
from ._runs import Claim, Pairs, Record, Runs

PLACES = ("los", "nlos", "mobility")


def goodput(run: Record) -> float | None:
    """What the application was given, in Mb/s."""
    return run.get("goodput_mbps")


def effect(published: float) -> float:
    """The limit of a ratio of which a source has this."""
    return round(1 + 0.75 * (published - 1), 3)


class Radios:
    """Goodputs over two radios."""

    def __init__(self, runs: Runs, scenario: str, paths: tuple[str, str] = ("wifi", "wigig")) -> None:
        self.runs, self.scenario, self.paths = runs, scenario, paths

    def of(self, scheme: str, case: Mapping[str, str] | None = None) -> Pairs:
        """By seed and case, the goodput of a scheme."""
        return self.runs.values(self.scenario, scheme, "cubic", goodput, case)

    def ratio(self, one: str, other: str) -> list[float]:
        """One scheme's ÷ another's, seed by seed."""
        return ratios(self.of(one), self.of(other))

    def to_sum(self, scheme: str, case: Mapping[str, str] | None = None) -> list[float]:
        """A scheme's ÷ the sum of the radios alone, seed by seed."""
        first, second = (dict(self.of(f"single:{path}", case)) for path in self.paths)
        both: Pairs = [(key, value + second[key]) for key, value in first.items() if key in second]
        return ratios(self.of(scheme, case), both)


def _claim(
    name: str, where: str, sentence: str, test: str, sweep: str, judge: Callable[[Runs], Test],
    is_variant: bool = False,
) -> Claim:
    return Claim(name, "FBDT", where, sentence, test, sweep, judge, is_variant)


def _six_c(place: str) -> Callable[[Runs], Radios]:
    return lambda runs: Radios(runs, f"fbdt-6c-{place}")


def _three_b(condition: str) -> Callable[[Runs], Radios]:
    return lambda runs: Radios(runs, f"fbdt-3b-{condition}")


_LOS, _NLOS, _MOVING = (_six_c(place) for place in PLACES)
_NORMAL, _LOSSY, _LATE = (_three_b(condition) for condition in ("normal", "loss-wigig", "delay-wigig"))


def _moved(runs: Runs) -> list[float]:
    """MPTCP in motion ÷ without line of sight, seed by seed."""
    return ratios(_MOVING(runs).of("linux-mptcp"), _NLOS(runs).of("linux-mptcp"))


def _steadily_high(runs: Runs, scheme: str) -> Test:
    shares = [sum(one >= 1700 for one in run) / len(run) for run in runs.seconds("fbdt-6c-los", scheme) if run]
    return above(f"share of {scheme}'s seconds with 1700 Mb/s", shares, 0.85)


_EQ = ("fwd", "bwd")


def _in_every_case(runs: Runs, scheme: str) -> Test:
    radios = Radios(runs, "fbdt-eq1", _EQ)
    return every(
        above(f"{scheme} ÷ sum, {_words(case)}", radios.to_sum(scheme, case), 0.95)
        for case in runs.cases("fbdt-eq1"))


def _words(case: Mapping[str, str]) -> str:
    return ", ".join(f"{key.removeprefix('path.')} {value}" for key, value in case.items())


def _split(runs: Runs) -> Test:
    """Whether the forward path's share is that of its throughput, in every case."""
    radios = Radios(runs, "fbdt-eq1", _EQ)
    tests = []
    for case in runs.cases("fbdt-eq1"):
        alone = [dict(radios.of(f"single:{path}", case)) for path in _EQ]
        off = []
        for key, share in runs.values("fbdt-eq1", "fbdt", "cubic", _forward_share, case):
            if all(key in one for one in alone):
                off.append(abs(share - alone[0][key] / (alone[0][key] + alone[1][key])))
        tests.append(below(f"distance from Eq. 1, {_words(case)}", off, 0.05))
    return every(tests)


def _forward_share(run: Record) -> float | None:
    sent = {path["name"]: path.get("goodput_mbps") or 0.0 for path in run["paths"]}
    total = sum(sent.values())
    return sent.get("fwd", 0.0) / total if total else None


def _gain(runs: Runs, places: tuple[str, ...], limit: float) -> Test:
    """Whether the paper's pairing gains that much, where a late tile is lost."""
    import json

    found = {
        condition.removeprefix("fbdt-6c-").lower(): of_mean
        for condition, concealment, step, of_mean, _ in _weftline.vr_gains([json.dumps(one) for one in runs.records])
        if step == "paper's pairing" and concealment == "grey"
    }
    tests = []
    # The smaller of the two numbers of draws less one, as the interval has it.
    freedom = min(len({session[key] for session in runs.records}) for key in ("video", "seed")) - 1 if runs.records else 0
    for place in places:
        what = f"gain in dB, {place}"
        tests.append(known(what, *found[place][:2], freedom, limit) if place in found else unknown(f"{what}: no runs"))
    return every(tests)


_SUM = "FBDT can achieve summation of individual data rates in all channel conditions."

FBDT: list[Claim] = [
    _claim("3b.1", "§2.2", "MPTCP achieves about 2200 Mbps, about 10 % less than the summation of throughput across "
           "the RATs.", "MPTCP ÷ sum from 0.85 to 0.95", "fbdt-3b",
           lambda runs: within("MPTCP ÷ sum", _NORMAL(runs).to_sum("linux-mptcp"), 0.85, 0.95)),
    _claim("3b.2", "§2.2", "A 5 % packet loss to the WiGig RAT reduces its standalone TCP rate to about 30 Mbps …",
           "WiGig alone below 60 Mb/s", "fbdt-3b",
           lambda runs: below("WiGig alone, Mb/s", [v for _, v in _LOSSY(runs).of("single:wigig")], 60)),
    _claim("3b.3", "§2.2", "… and the MPTCP rate to 147 Mbps; WiFi alone has 630.",
           f"MPTCP ÷ WiFi alone below {effect(147 / 630)}", "fbdt-3b",
           lambda runs: below("MPTCP ÷ WiFi", _LOSSY(runs).ratio("linux-mptcp", "single:wifi"), effect(147 / 630))),
    _claim("3b.4", "§2.2", "A 500 msec delay to the WiGig RAT further reduces MPTCP throughput to 30 Mbps.",
           f"MPTCP ÷ WiFi alone below {effect(30 / 630)}", "fbdt-3b-delay",
           lambda runs: below("MPTCP ÷ WiFi", _LATE(runs).ratio("linux-mptcp", "single:wifi"), effect(30 / 630))),
    _claim("6c.1", "§1, §6.2", f"{_SUM} (In motion \"slightly less\": 1381 of 1532 in the logs.)",
           "FBDT ÷ sum at least 0.9 in line of sight, without it, and in motion", "fbdt-6c",
           lambda runs: every(above(f"FBDT ÷ sum, {place}", _six_c(place)(runs).to_sum("fbdt"), 0.9)
                              for place in PLACES)),
    _claim("6c.2", "§6.2", "LoS: FBDT is 20 % higher than MPTCP.", f"FBDT ÷ MPTCP at least {effect(1.2)}", "fbdt-6c",
           lambda runs: above("FBDT ÷ MPTCP", _LOS(runs).ratio("fbdt", "linux-mptcp"), effect(1.2))),
    _claim("6c.3", "§6.2", "LoS: FBDT and MuSher utilize both subflows to the fullest extent.",
           "FBDT ÷ sum and MuSher ÷ sum at least 0.9", "fbdt-6c",
           lambda runs: every(above(f"{scheme} ÷ sum", _LOS(runs).to_sum(scheme), 0.9)
                              for scheme in ("fbdt", "musher"))),
    _claim("6c.4", "§6.2", "nLoS: MuSher gets 814 Mbps, which is even lower than baseline MPTCP.",
           "MuSher ÷ MPTCP below 1", "fbdt-6c",
           lambda runs: below("MuSher ÷ MPTCP", _NLOS(runs).ratio("musher", "linux-mptcp"), 1)),
    _claim("6c.5", "§6.2", "nLoS: FBDT has 1300 Mbps, MPTCP 930.", f"FBDT ÷ MPTCP at least {effect(1300 / 930)}",
           "fbdt-6c", lambda runs: above("FBDT ÷ MPTCP", _NLOS(runs).ratio("fbdt", "linux-mptcp"),
                                         effect(1300 / 930))),
    _claim("6c.6", "§6.2", "In motion MPTCP is not able to benefit effectively from the increase in the average WiGig "
           "rate: its throughput remains close to its nLoS throughput.", "MPTCP in motion ÷ without line of sight "
           "from 0.9 to 1.15", "fbdt-6c",
           lambda runs: within("MPTCP, motion ÷ nLoS", _moved(runs), 0.9, 1.15)),
    _claim("6c.7", "§6.2", "In motion MuSher gets a performance that is close to half of baseline MPTCP.",
           "MuSher ÷ MPTCP from 0.4 to 0.6", "fbdt-6c",
           lambda runs: within("MuSher ÷ MPTCP", _MOVING(runs).ratio("musher", "linux-mptcp"), 0.4, 0.6)),
    _claim("6c.8", "abstract", "2.5× gain against the state of the art when the client is mobile (MuSher).",
           f"FBDT ÷ MuSher at least {effect(2.5)}", "fbdt-6c",
           lambda runs: above("FBDT ÷ MuSher", _MOVING(runs).ratio("fbdt", "musher"), effect(2.5))),
    _claim("6c.9", "abstract", "State-of-the-art MPTCP solutions can achieve rates that are lower than that of "
           "using only a single WiFi RAT, e.g., when the client is mobile. (Not in the paper's own figures: 981 and 498 "
           "for 476.)", "MPTCP or MuSher ÷ WiFi alone below 1", "fbdt-6c",
           lambda runs: some(below(f"{scheme} ÷ WiFi", _MOVING(runs).ratio(scheme, "single:wifi"), 1)
                             for scheme in ("linux-mptcp", "musher"))),
    _claim("6d.1", "§6.2, Fig. 6d", "LoS: both FBDT and MuSher achieve a minimum of 1700 Mbps 85 % of the time.",
           "at least 0.85 of the seconds of each have 1700 Mb/s", "fbdt-6c",
           lambda runs: every(_steadily_high(runs, scheme) for scheme in ("fbdt", "musher"))),
    _claim("6f.1", "§6.3, Fig. 6f", "Even in LoS there is more than 10 dB gain in PSNR (OWS over FBDT against FIX over "
           "MPTCP).", "the paper's pairing, a late tile lost, mean MSE: above 7.5 dB", "fig6f",
           lambda runs: _gain(runs, ("los",), 7.5)),
    _claim("6f.2", "§6.3, Fig. 6f", "The gain increases to 13 dB in nLoS and mobility.",
           "the same: above 9.75 dB in both", "fig6f", lambda runs: _gain(runs, ("nlos", "mobility"), 9.75)),
    _claim("Eq1.1", "§3.1, Eq. 1", "The forward path gets the share of a window that its rate has in the sum.",
           "`fbdt`: the share is within 0.05 of it in every case", "fbdt-eq1", _split),
    _claim("Eq2.1", "§3.2, Eq. 2", "FBDT throughput is very close to the summation of individual rates, irrespective of "
           "the channel conditions.", "`fbdt-strict`, the algorithm as printed, ÷ sum at least 0.95 in every case",
           "fbdt-eq1", lambda runs: _in_every_case(runs, "fbdt-strict")),
    _claim("Eq2.2", "§3.2, Eq. 2", "The same, of windows that overlap, as ours do.",
           "`fbdt` ÷ sum at least 0.95 in every case", "fbdt-eq1", lambda runs: _in_every_case(runs, "fbdt"),
           is_variant=True),
]
