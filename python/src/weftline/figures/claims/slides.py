"""The claims of the slides on MPTCP with BBR for video."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from ..counts import LEAST_PLAYER_SEEDS, discards_say, link_discards, resent
from ..verdict import Test, above, below, differences, every, more, negation, some, unknown
from ._runs import Claim, Pairs, Record, Runs

_SCENARIOS = ("mptcp-a1", "mptcp-a2", "mptcp-b1", "mptcp-b2")
_SCHEDULERS = ("min-rtt", "lpc", "let", "gr-sty", "tp-sty", "tr-sty")
_CONTROLS = ("bbr", "cubic", "compound", "lia", "olia", "balia")
_LIAS = ("lia", "olia", "balia")
# 1 % of the clip's 5,400 pictures, and one standstill: what the slides' figures show as good.
_MOST_DISCARDS, _MOST_UNDERFLOWS = 54, 1

Value = Callable[[Record], "float | None"]


def _underflows(run: Record) -> float | None:
    value: float | None = run.get("video", {}).get("buffer_underflows")
    return value


def _bytes(name: str) -> Value:
    def value(run: Record) -> float | None:
        return next((path.get("bytes_sent") for path in run["paths"] if path["name"] == name), None)

    return value


def _evenness(run: Record) -> float | None:
    wifi, lte = (_bytes(name)(run) for name in ("wifi", "lte"))
    return None if not wifi or lte is None else -abs(wifi / (wifi + lte) - 0.5)


def _resent_on(*paths: str) -> Value:
    return lambda run: resent(run, paths)


class Video:
    """What the slides' sentences are made of, in one scenario."""

    def __init__(self, runs: Runs, scenario: str) -> None:
        self.runs, self.scenario = runs, scenario

    def of(self, scheme: str, control: str, value: Value) -> Pairs:
        """By seed and case, what the runs of a pair say."""
        return self.runs.values(self.scenario, scheme, control, value)

    def _few(self, scheme: str, control: str) -> tuple[Test, Test]:
        """Whether there are few underflows, and few discards."""
        pair = f"{control} under {scheme}"
        values = [value for _, value in self.of(scheme, control, _underflows)]
        underflows = below(f"buffer underflows of {pair}", values, _MOST_UNDERFLOWS, counts=True)
        what = f"picture discards of {pair}"
        if not discards_say(self.runs.of(self.scenario, scheme, control)):
            return underflows, unknown(f"{what}: fewer than {LEAST_PLAYER_SEEDS} seeds of a player")
        values = [value for _, value in self.of(scheme, control, link_discards)]
        return underflows, below(what, values, _MOST_DISCARDS, counts=True)

    def good(self, scheme: str, control: str) -> Test:
        """Whether both are few."""
        return every(self._few(scheme, control))

    def large(self, scheme: str, control: str) -> Test:
        """Whether neither is few."""
        return every(negation(test) for test in self._few(scheme, control))

    def all_good(self, controls: Sequence[str], schedulers: Sequence[str] = _SCHEDULERS) -> Test:
        """Whether all pairs are good. A scheduler that was not run leaves it open."""
        return every(self.good(s, c) for c in controls for s in schedulers)

    def most(self, control: str, value: Value, what: str, schedulers: Sequence[str] = _SCHEDULERS) -> Test:
        """Whether one control has more of something than each other one, under each scheduler."""
        others = [other for other in _CONTROLS if other != control]
        return every(
            more(f"{what}, {control} − {other} under {scheme}",
                 differences(self.of(scheme, control, value), self.of(scheme, other, value)), 0,
                 counts=value is not _evenness)
            for scheme in schedulers for other in others)

    def used_more(
        self, path: str, other: str, controls: Sequence[str], schedulers: Sequence[str] = _SCHEDULERS
    ) -> Test:
        """Whether one path carries more than the other, in the mean over schedulers and controls, which
        are no draws: each seed has one mean."""
        groups = [
            dict(_gap(self.of(scheme, control, _bytes(path)), self.of(scheme, control, _bytes(other))))
            for scheme in schedulers for control in controls]
        means = _means(groups)
        who = controls[0] if len(controls) == 1 else "all controls"
        return more(f"bytes on {path} − {other}, {who}", means, 0)


def _gap(one: Pairs, other: Pairs) -> Pairs:
    others = dict(other)
    return [(key, value - others[key]) for key, value in one if key in others]


def _means(groups: Sequence[dict[object, float]]) -> list[float]:
    """The mean over groups of each key that all of them have."""
    keys = [key for key in (groups[0] if groups else {}) if all(key in group for group in groups)]
    return [sum(group[key] for group in groups) / len(groups) for key in keys]


def _per_seed(runs: Runs, control: str, value: Value) -> dict[object, float]:
    """By seed and case, the mean over scenarios and schedulers."""
    found: dict[object, list[float]] = defaultdict(list)
    for scenario in _SCENARIOS:
        for scheme in _SCHEDULERS:
            for key, one in Video(runs, scenario).of(scheme, control, value):
                found[key].append(one)
    wanted = len(_SCENARIOS) * len(_SCHEDULERS)
    return {key: sum(values) / wanted for key, values in found.items() if len(values) == wanted}


def _better(runs: Runs) -> Test:
    """Whether BBR has fewer underflows and fewer discards than each other control."""
    tests = []
    of_bbr = [run for scenario in _SCENARIOS for scheme in _SCHEDULERS for run in runs.of(scenario, scheme, "bbr")]
    if of_bbr and not discards_say(of_bbr):
        return unknown(f"picture discards: fewer than {LEAST_PLAYER_SEEDS} seeds of a player")
    for what, value in (("buffer underflows", _underflows), ("picture discards", link_discards)):
        ours = _per_seed(runs, "bbr", value)
        for other in _CONTROLS[1:]:
            theirs = _per_seed(runs, other, value)
            gaps = [theirs[key] - ours[key] for key in ours if key in theirs]
            tests.append(more(f"{what}, {other} − bbr", gaps, 0, counts=True))
    return every(tests)


def _claim(
    number: str, scenario: str, where: str, sentence: str, test: str, judge: Callable[[Video], Test],
    is_variant: bool = False,
) -> Claim:
    return Claim(
        f"{scenario.removeprefix('mptcp-').upper()}.{number}", "MPTCP with BBR", where, sentence, test,
        "mptcp-video", lambda runs: judge(Video(runs, scenario)), is_variant)


def _of_all(number: str, where: str, sentence: str, test: str, judge: Callable[[Runs], Test]) -> Claim:
    return Claim(number, "MPTCP with BBR", where, sentence, test, "mptcp-video", judge)


_GOOD = "less than 1 underflow and 54 discarded pictures in the mean"
_LAB = "of a player in the lab: packets that the links lost and dropped"
_RESENDS = f"BBR − each other control: packets sent again, under each scheduler ({_LAB})"

SLIDES: list[Claim] = [
    _claim("1", "mptcp-a1", "A1, video performance", "Except for LIA, the video quality is excellent.",
           f"every control but LIA has {_GOOD} under every scheduler, and LIA has not",
           lambda v: every([v.all_good([c for c in _CONTROLS if c != "lia"]), negation(v.all_good(["lia"]))])),
    _claim("2", "mptcp-a1", "A1, total packets", "We can see that LTE path is most used.",
           "bytes on LTE − WiFi, mean over all schedulers and controls",
           lambda v: v.used_more("lte", "wifi", _CONTROLS)),
    _claim("3", "mptcp-a1", "A1, retransmit packets", "BBR has a high number of retransmissions.", _RESENDS,
           lambda v: v.most("bbr", resent, "packets sent again")),
    _claim("1", "mptcp-a2", "A2, video performance",
           "Compound, OLIA and BALIA have a large buffer underflow and picture discard performance using TP-STY.",
           "each has at least 1 underflow and at least 54 discarded pictures in the mean under TP-STY, and BBR and CUBIC "
           "have less of both",
           lambda v: every([*(v.large("tp-sty", c) for c in ("compound", "olia", "balia")),
                            *(v.good("tp-sty", c) for c in ("bbr", "cubic"))])),
    _claim("2", "mptcp-a2", "A2, video performance", "LIA variants perform poorly.",
           f"LIA, OLIA and BALIA each have not {_GOOD} under some scheduler other than TP-STY",
           lambda v: every(negation(v.all_good([c], [s for s in _SCHEDULERS if s != "tp-sty"])) for c in _LIAS)),
    _claim("3", "mptcp-a2", "A2, total packets",
           "TCP variants of poor video performance under TP-STY prefer WiFi path to LTE path.",
           "Compound, OLIA, BALIA under TP-STY: bytes on WiFi − LTE",
           lambda v: every(v.used_more("wifi", "lte", [c], ["tp-sty"]) for c in ("compound", "olia", "balia"))),
    _claim("4", "mptcp-a2", "A2, retransmit packets",
           "Larger retransmissions for BBR than other variants across schedulers except TP-STY on WiFi path.",
           f"{_RESENDS}; under TP-STY those on LTE",
           lambda v: every([v.most("bbr", resent, "packets sent again", [s for s in _SCHEDULERS if s != "tp-sty"]),
                            v.most("bbr", _resent_on("lte"), "packets sent again on LTE", ["tp-sty"])])),
    _claim("1", "mptcp-b1", "B1, video performance",
           "A wide variety of performances vis a vis path scheduler/TCP variant combinations.",
           f"of the controls but BBR some pair with a scheduler has {_GOOD}, and some has not",
           lambda v: every([
               some(v.good(s, c) for s in _SCHEDULERS for c in _CONTROLS[1:]),
               negation(v.all_good(_CONTROLS[1:]))])),
    _claim("2", "mptcp-b1", "B1, video performance", "Consistent good performance of BBR, even across all schedulers.",
           f"BBR has {_GOOD} under every scheduler", lambda v: v.all_good(["bbr"])),
    _claim("3", "mptcp-b1", "B1, total packets", "BBR maintains a better WiFi utilization …",
           "BBR − each other control: bytes on WiFi, under each scheduler",
           lambda v: v.most("bbr", _bytes("wifi"), "bytes on WiFi")),
    _claim("4", "mptcp-b1", "B1, total packets", "… striking a balance between the paths across all packet schedulers.",
           "BBR − each other control: nearness of WiFi's share to a half, under each scheduler",
           lambda v: v.most("bbr", _evenness, "nearness to a half")),
    _claim("5", "mptcp-b1", "B1, retransmit packets",
           "BBR with a significantly larger number of retransmissions across all schedulers.", _RESENDS,
           lambda v: v.most("bbr", resent, "packets sent again")),
    _claim("1", "mptcp-b2", "B2, video performance",
           "Only TCP variants able to deliver good performance across all schedulers is BBR and Cubic.",
           f"BBR and CUBIC have {_GOOD} under every scheduler, and no other has",
           lambda v: every([v.all_good(["bbr", "cubic"]), *(negation(v.all_good([c])) for c in _CONTROLS[2:])])),
    _claim("2", "mptcp-b2", "B2, video performance",
           "LIA variants all deliver large buffer underflow due to their lack of aggressiveness.",
           "LIA, OLIA and BALIA each have at least one underflow in the mean under every scheduler",
           lambda v: every(
               above(f"underflows of {c} under {s}", [n for _, n in v.of(s, c, _underflows)], 1, counts=True)
               for c in _LIAS for s in _SCHEDULERS)),
    _claim("3", "mptcp-b2", "B2, total packets", "Large LTE path utilization across all TCP variants.",
           "each control: bytes on LTE − WiFi, mean over all schedulers",
           lambda v: every(v.used_more("lte", "wifi", [c]) for c in _CONTROLS)),
    _claim("4", "mptcp-b2", "B2, retransmit packets", "BBR retransmits more than the other variants.", _RESENDS,
           lambda v: v.most("bbr", resent, "packets sent again")),
    _of_all("R.1", "Results", "Overall, video quality was good for all schedulers and BBR combinations.",
            f"BBR has {_GOOD} under every scheduler in every scenario",
            lambda runs: every(Video(runs, scenario).all_good(["bbr"]) for scenario in _SCENARIOS)),
    _of_all("R.2", "Results", "In all scenarios, BBR retransmits more than the other congestion controls.",
            f"{_RESENDS}, in every scenario",
            lambda runs: every(Video(runs, scenario).most("bbr", resent, f"{scenario}: packets sent again")
                               for scenario in _SCENARIOS)),
    _of_all("R.3", "Conclusion", "Video quality was found to be better than other congestion controls using BBR.",
            "each other control − BBR: underflows, and discarded pictures, in the mean over scenarios and schedulers",
            _better),
]
