"""The claims of the three sources: where each stands, what it says, the test, and our verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._results import Results
from .discards import LEAST_PLAYER_SEEDS, discards_say, link_discards
from .verdict import Finding, above, below, differences, every, negation, ratios, some, within

Record = Mapping[str, Any]
Pairs = list[tuple[object, float]]


@dataclass(frozen=True)
class Claim:
    """A sentence of a source, and how it is tested on the runs of a sweep."""

    name: str
    source: str
    where: str
    sentence: str
    # The test in words.
    test: str
    sweep: str
    judge: Callable[[Runs], Finding]


class Runs:
    """Runs that count, by what tells them apart."""

    def __init__(self, records: Iterable[Record], soft: bool = False) -> None:
        # TP-STY and TR-STY as printed wait for the path they stay on; `soft` takes those that do not.
        self._soft = soft
        self._of: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
        for run in records:
            counts = run.get("completed") and run.get("error") is None
            if counts and run.get("emulator", {}).get("valid", True):
                self._of[run["scenario"], run["scheme"], run["congestion"]].append(run)

    def values(
        self, scenario: str, scheme: str, congestion: str, value: Callable[[Record], float | None],
        **case: str,
    ) -> Pairs:
        """By seed and case, what the runs say."""
        pairs: Pairs = []
        for run in self.of(scenario, scheme, congestion):
            swept = run.get("case", {})
            found = value(run)
            if found is not None and all(swept.get(_key(key)) == want for key, want in case.items()):
                pairs.append(((run["seed"], tuple(sorted(swept.items()))), found))
        return pairs

    def of(self, scenario: str, scheme: str, congestion: str) -> list[Record]:
        """The runs themselves."""
        if self._soft and f"{scheme}-soft" in {key[1] for key in self._of}:
            scheme = f"{scheme}-soft"
        return self._of.get((scenario, scheme, congestion), [])

    def schemes(self, scenario: str) -> list[str]:
        """Those that have been run over a scenario."""
        return sorted({scheme for name, scheme, _ in self._of if name == scenario})


def _key(name: str) -> str:
    return {"delay": "backend.delay", "connections": "workload.parallel"}.get(name, name)


def judge(claim: Claim, records: Iterable[Record] | Results, soft: bool = False) -> Finding:
    """What the runs of the claim's sweep say of it."""
    return claim.judge(Runs(records, soft))


# ---- the slides: video ----

_SCHEDULERS = ["min-rtt", "lpc", "let", "gr-sty", "tp-sty", "tr-sty"]
_CONTROLS = ["bbr", "cubic", "compound", "lia", "olia", "balia"]
_LIAS = ["lia", "olia", "balia"]
# 1 % of the clip's 5,400 pictures, and one standstill: what the slides' figures show as good.
_MOST_DISCARDS, _MOST_UNDERFLOWS = 54, 1


def _video(key: str) -> Callable[[Record], float | None]:
    return lambda run: run.get("video", {}).get(key)


def _path(name: str, key: str) -> Callable[[Record], float | None]:
    def value(run: Record) -> float | None:
        return next((path.get(key) for path in run["paths"] if path["name"] == name), None)

    return value


def _resent(run: Record) -> float | None:
    """In the lab a program's own sockets tell what they lost, and had to send again."""
    counts = []
    for path in run["paths"]:
        count = path.get("retransmitted_packets")
        counts.append(path["lost"] + path["queue_drops"] if count is None else count)
    return float(sum(counts))


def _second(pairs: Pairs) -> list[float]:
    return [value for _, value in pairs]


class _Video:
    """What the slides' sentences are made of, in one scenario."""

    def __init__(self, runs: Runs, scenario: str) -> None:
        self.runs, self.scenario = runs, scenario
        there = runs.schemes(scenario)
        self.schedulers = [one for one in _SCHEDULERS if one in there]

    def of(self, scheme: str, control: str, value: Callable[[Record], float | None]) -> Pairs:
        return self.runs.values(self.scenario, scheme, control, value)

    def good(self, scheme: str, control: str) -> Finding:
        def few(what: str, value: Callable[[Record], float | None], most: float) -> Finding:
            values = _second(self.of(scheme, control, value))
            return below(f"{what} of {control} under {scheme}", values, most)

        underflows = few("buffer underflows", _video("buffer_underflows"), _MOST_UNDERFLOWS)
        what = f"picture discards of {control} under {scheme}"
        if not discards_say(self.runs.of(self.scenario, scheme, control)):
            return every([underflows, Finding(None, f"{what}: fewer than {LEAST_PLAYER_SEEDS} seeds of a player")])
        return every([underflows, few("picture discards", link_discards, _MOST_DISCARDS)])

    def all_good(self, controls: Sequence[str], schedulers: Sequence[str] | None = None) -> Finding:
        return every(self.good(s, c) for c in controls for s in schedulers or self.schedulers)

    def more(
        self, scheme: str, one: str, other: str, value: Callable[[Record], float | None], what: str
    ) -> Finding:
        """Whether one control has more of something than another, pair by pair."""
        gap = differences(self.of(scheme, one, value), self.of(scheme, other, value))
        return negation(below(f"{what}, {one} − {other} under {scheme}", gap, 0)) if gap else Finding(None, "no runs")

    def most(
        self, control: str, value: Callable[[Record], float | None], what: str, but: str = ""
    ) -> Finding:
        others = [other for other in _CONTROLS if other != control]
        schedulers = [scheme for scheme in self.schedulers if scheme != but]
        return every(self.more(s, control, other, value, what) for s in schedulers for other in others)

    def used_more(self, path: str, other: str, schemes: Sequence[str], controls: Sequence[str]) -> Finding:
        """Whether one path carries more than the other, in the mean over schedulers and controls."""
        gap: list[float] = []
        for scheme in schemes:
            for control in controls:
                gap += differences(
                    self.of(scheme, control, _path(path, "bytes_sent")),
                    self.of(scheme, control, _path(other, "bytes_sent")),
                )
        return negation(below(f"bytes on {path} − {other}", gap, 0)) if gap else Finding(None, "no runs")


def _slide(
    number: str, scenario: str, where: str, sentence: str, test: str, judge: Callable[[_Video], Finding]
) -> Claim:
    return Claim(
        f"{scenario.removeprefix('mptcp-').upper()}.{number}", "MPTCP with BBR", where, sentence, test,
        "mptcp-video", lambda runs: judge(_Video(runs, scenario)),
    )


def _evenness(run: Record) -> float | None:
    wifi, lte = (_path(name, "bytes_sent")(run) for name in ("wifi", "lte"))
    return None if not wifi or lte is None else -abs(wifi / (wifi + lte) - 0.5)


_GOOD = "less than 1 underflow and 54 discarded pictures in the mean"
_RESENDS = "BBR − each other control: packets sent again, under each scheduler"

SLIDES: list[Claim] = [
    _slide("1", "mptcp-a1", "A1, video performance", "Except for LIA, the video quality is excellent.",
           f"every control but LIA has {_GOOD} under every scheduler, and LIA has not",
           lambda v: every([v.all_good([c for c in _CONTROLS if c != "lia"]), negation(v.all_good(["lia"]))])),
    _slide("2", "mptcp-a1", "A1, total packets", "LTE path is most used.",
           "bytes on LTE − WiFi, all schedulers and controls",
           lambda v: v.used_more("lte", "wifi", v.schedulers, _CONTROLS)),
    _slide("3", "mptcp-a1", "A1, retransmit packets", "BBR has a high number of retransmissions.", _RESENDS,
           lambda v: v.most("bbr", _resent, "packets sent again")),
    _slide("1", "mptcp-a2", "A2, video performance",
           "Compound, OLIA and BALIA have a large buffer underflow and picture discard performance using TP-STY.",
           f"each has not {_GOOD} under TP-STY",
           lambda v: every(negation(v.good("tp-sty", c)) for c in ("compound", "olia", "balia"))),
    _slide("2", "mptcp-a2", "A2, video performance", "LIA variants perform poorly.",
           f"LIA, OLIA and BALIA each have not {_GOOD} under some scheduler",
           lambda v: every(negation(v.all_good([c])) for c in _LIAS)),
    _slide("3", "mptcp-a2", "A2, total packets",
           "TCP variants of poor video performance under TP-STY prefer the WiFi path to the LTE path.",
           "Compound, OLIA, BALIA under TP-STY: bytes on WiFi − LTE",
           lambda v: every(v.used_more("wifi", "lte", ["tp-sty"], [c]) for c in ("compound", "olia", "balia"))),
    _slide("4", "mptcp-a2", "A2, retransmit packets",
           "Larger retransmissions for BBR than other variants across schedulers except TP-STY.",
           f"{_RESENDS} but TP-STY", lambda v: v.most("bbr", _resent, "packets sent again", but="tp-sty")),
    _slide("1", "mptcp-b1", "B1, video performance",
           "A wide variety of performances vis a vis path scheduler/TCP variant combinations.",
           f"of the controls but BBR some pair with a scheduler has {_GOOD}, and some has not",
           lambda v: every([
               some(v.good(s, c) for s in v.schedulers for c in _CONTROLS[1:]),
               negation(v.all_good(_CONTROLS[1:]))])),
    _slide("2", "mptcp-b1", "B1, video performance", "Consistent good performance of BBR, even across all schedulers.",
           f"BBR has {_GOOD} under every scheduler", lambda v: v.all_good(["bbr"])),
    _slide("3", "mptcp-b1", "B1, total packets", "BBR maintains a better WiFi utilization.",
           "BBR − each other control: bytes on WiFi, under each scheduler",
           lambda v: v.most("bbr", _path("wifi", "bytes_sent"), "bytes on WiFi")),
    _slide("4", "mptcp-b1", "B1, total packets", "… striking a balance across all packet schedulers.",
           "BBR − each other control: nearness of WiFi's share to a half, under each scheduler",
           lambda v: v.most("bbr", _evenness, "nearness to a half")),
    _slide("5", "mptcp-b1", "B1, retransmit packets",
           "BBR with a significantly larger number of retransmissions across all schedulers.", _RESENDS,
           lambda v: v.most("bbr", _resent, "packets sent again")),
    _slide("1", "mptcp-b2", "B2, video performance",
           "Only TCP variants able to deliver good performance across all schedulers is BBR and Cubic.",
           f"BBR and CUBIC have {_GOOD} under every scheduler, and no other has",
           lambda v: every([v.all_good(["bbr", "cubic"]), *(negation(v.all_good([c])) for c in _CONTROLS[2:])])),
    _slide("2", "mptcp-b2", "B2, video performance",
           "LIA variants all deliver large buffer underflow due to their lack of aggressiveness.",
           "LIA, OLIA and BALIA each have at least one underflow in the mean under every scheduler",
           lambda v: every(
               above(f"underflows of {c} under {s}", _second(v.of(s, c, _video("buffer_underflows"))), 1)
               for c in _LIAS for s in v.schedulers)),
    _slide("3", "mptcp-b2", "B2, total packets", "Large LTE path utilization across all TCP variants.",
           "each control: bytes on LTE − WiFi, all schedulers",
           lambda v: every(v.used_more("lte", "wifi", v.schedulers, [c]) for c in _CONTROLS)),
    _slide("4", "mptcp-b2", "B2, retransmit packets", "BBR retransmits more than the other variants.", _RESENDS,
           lambda v: v.most("bbr", _resent, "packets sent again")),
    *[_slide("all", scenario, "Results: evaluation", "All schedulers with BBR result in good performance.",
             f"BBR has {_GOOD} under every scheduler", lambda v: v.all_good(["bbr"]))
      for scenario in ("mptcp-a1", "mptcp-a2", "mptcp-b1", "mptcp-b2")],
]
CLAIMS = SLIDES


# ---- FBDT ----

def _goodput(run: Record) -> float | None:
    return run.get("goodput_mbps")


class _Radios:
    """Goodputs over two radios."""

    def __init__(self, runs: Runs, scenario: str, paths: tuple[str, str] = ("wifi", "wigig")) -> None:
        self.runs, self.scenario, self.paths = runs, scenario, paths

    def of(self, scheme: str) -> Pairs:
        return self.runs.values(self.scenario, scheme, "cubic", _goodput)

    def ratio(self, one: str, other: str) -> list[float]:
        return ratios(self.of(one), self.of(other))

    def to_sum(self, scheme: str) -> list[float]:
        first, second = (dict(self.of(f"single:{path}")) for path in self.paths)
        both: Pairs = [(key, value + second[key]) for key, value in first.items() if key in second]
        return ratios(self.of(scheme), both)


def _fbdt(
    name: str, where: str, sentence: str, test: str, sweep: str, scenario: str,
    judge: Callable[[_Radios], Finding], paths: tuple[str, str] = ("wifi", "wigig"),
) -> Claim:
    return Claim(name, "FBDT", where, sentence, test, sweep, lambda runs: judge(_Radios(runs, scenario, paths)))


_EQ = ("fwd", "bwd")
FBDT: list[Claim] = [
    _fbdt("3b.1", "§2.2", "MPTCP achieves about 10 % less than the summation of throughput across the RATs.",
          "MPTCP ÷ sum from 0.85 to 0.95", "fbdt-3b", "fbdt-3b-normal",
          lambda r: within("MPTCP ÷ sum", r.to_sum("linux-mptcp"), 0.85, 0.95)),
    _fbdt("3b.2", "§2.2", "A 5 % packet loss to WiGig reduces the MPTCP rate to 147 Mbps; WiFi alone has 630.",
          "MPTCP ÷ WiFi alone below 1", "fbdt-3b", "fbdt-3b-loss-wigig",
          lambda r: below("MPTCP ÷ WiFi", r.ratio("linux-mptcp", "single:wifi"), 1)),
    _fbdt("3b.3", "§2.2", "A 500 msec delay to WiGig further reduces MPTCP throughput to 30 Mbps.",
          "MPTCP ÷ WiFi alone below 0.1", "fbdt-3b-delay", "fbdt-3b-delay-wigig",
          lambda r: below("MPTCP ÷ WiFi", r.ratio("linux-mptcp", "single:wifi"), 0.1)),
    *[_fbdt(f"6c.{n}", "§1, §6.2", "FBDT can achieve summation of individual data rates in all channel conditions.",
            "FBDT ÷ sum at least 0.95", "fbdt-6c", f"fbdt-6c-{place}",
            lambda r: above("FBDT ÷ sum", r.to_sum("fbdt"), 0.95))
      for n, place in enumerate(("los", "nlos", "mobility"), 1)],
    _fbdt("6c.4", "§6.2", "LoS: FBDT is 20 % higher than MPTCP.", "FBDT ÷ MPTCP at least 1.2", "fbdt-6c",
          "fbdt-6c-los", lambda r: above("FBDT ÷ MPTCP", r.ratio("fbdt", "linux-mptcp"), 1.2)),
    _fbdt("6c.5", "§6.2", "LoS: FBDT and MuSher utilize both subflows to the fullest extent.",
          "MuSher ÷ FBDT from 0.95 to 1.05", "fbdt-6c", "fbdt-6c-los",
          lambda r: within("MuSher ÷ FBDT", r.ratio("musher", "fbdt"), 0.95, 1.05)),
    _fbdt("6c.6", "§6.2", "nLoS: MuSher gets 814 Mbps, which is even lower than baseline MPTCP.",
          "MuSher ÷ MPTCP below 1", "fbdt-6c", "fbdt-6c-nlos",
          lambda r: below("MuSher ÷ MPTCP", r.ratio("musher", "linux-mptcp"), 1)),
    _fbdt("6c.7", "§6.2", "nLoS: FBDT has 1300 Mbps, MPTCP 930.", "FBDT ÷ MPTCP at least 1.4", "fbdt-6c",
          "fbdt-6c-nlos", lambda r: above("FBDT ÷ MPTCP", r.ratio("fbdt", "linux-mptcp"), 1.4)),
    _fbdt("6c.8", "§6.2", "In motion MuSher gets a performance that is close to half of baseline MPTCP.",
          "MuSher ÷ MPTCP from 0.4 to 0.6", "fbdt-6c", "fbdt-6c-mobility",
          lambda r: within("MuSher ÷ MPTCP", r.ratio("musher", "linux-mptcp"), 0.4, 0.6)),
    _fbdt("6c.9", "abstract", "2.5× gain against the state of the art when the client is mobile (MuSher).",
          "FBDT ÷ MuSher at least 2.5", "fbdt-6c", "fbdt-6c-mobility",
          lambda r: above("FBDT ÷ MuSher", r.ratio("fbdt", "musher"), 2.5)),
    _fbdt("6c.10", "§6.2", "In motion MPTCP is not able to benefit from WiGig, FBDT is.",
          "FBDT ÷ MPTCP above 1", "fbdt-6c", "fbdt-6c-mobility",
          lambda r: above("FBDT ÷ MPTCP", r.ratio("fbdt", "linux-mptcp"), 1)),
    _fbdt("Eq2.1", "§3.2, Eq. 2", "FBDT throughput is very close to the summation of individual rates.",
          "`fbdt` ÷ sum at least 0.95", "fbdt-eq1", "fbdt-eq1",
          lambda r: above("fbdt ÷ sum", r.to_sum("fbdt"), 0.95), _EQ),
    _fbdt("Eq2.2", "§3, Eq. 2", "The same, of the algorithm as printed.", "`fbdt-strict` ÷ sum at least 0.95",
          "fbdt-eq1", "fbdt-eq1", lambda r: above("fbdt-strict ÷ sum", r.to_sum("fbdt-strict"), 0.95), _EQ),
]


# ---- COTAG ----

def _cotag(
    name: str, where: str, sentence: str, scenario: str, loss: str, more: bool,
    value: Callable[[Record], float | None], what: str,
) -> Claim:
    def test(runs: Runs) -> Finding:
        findings = []
        for delay in ("0ms", "5ms", "10ms", "20ms", "40ms"):
            cotag, musher = (
                runs.values(scenario, scheme, "cubic", value, loss=loss, delay=delay, connections="4")
                for scheme in ("cotag", "musher")
            )
            quotients = ratios(cotag, musher)
            if quotients:
                judge = above if more else below
                findings.append(judge(f"COTAG ÷ MuSher, {what}, {delay}", quotients, 1))
        return every(findings)

    words = f"COTAG ÷ MuSher, {what}, {'above' if more else 'below'} 1 at each delay, four connections"
    return Claim(name, "COTAG", where, sentence, words, scenario, test)


def _short_term(run: Record) -> float | None:
    value: float | None = run.get("short_term_mbps", {}).get("p50")
    return value


def _completion(run: Record) -> float | None:
    return run.get("completion_s")


_MORE = "COTAG significantly enhances TCP's short-term throughput"
_LESS = "COTAG has much smaller latency than MuSher"
COTAG: list[Claim] = [
    _cotag("5a", "§IV-B, Fig. 5a", f"{_MORE}, without packet errors.", "cotag-fig5", "0.0", True, _short_term,
           "short-term throughput"),
    _cotag("5b", "§IV-B, Fig. 5b", f"{_MORE}, with 0.001 % of packet errors.", "cotag-fig5", "0.00001", True,
           _short_term, "short-term throughput"),
    _cotag("6a", "§IV-B, Fig. 6a", f"{_LESS}, without packet errors.", "cotag-fig6", "0.0", False, _completion,
           "time for 1 Gb"),
    _cotag("6b", "§IV-B, Fig. 6b", f"{_LESS}, with 0.001 % of packet errors.", "cotag-fig6", "0.00001", False,
           _completion, "time for 1 Gb"),
]

ALL: list[Claim] = [*FBDT, *COTAG, *SLIDES]


def table(results: Callable[[str, str], Results | None]) -> tuple[str, dict[str, tuple[int, int, int]]]:
    """The claims as a table in Markdown; `results` gives the runs of a sweep in a world. And how many of
    each source hold, do not, and are undecided, in the simulator with the schedulers as printed."""
    lines, counts = [], {}
    for source in dict.fromkeys(claim.source for claim in ALL):
        verdicts = []
        columns = ["simulator", "the figure that decides"]
        is_slides = source == SLIDES[0].source
        columns += ["with `-soft`"] if is_slides else []
        columns += ["lab"]
        lines += ["", f"## {source}", "", "| claim | where | it says | test | " + " | ".join(columns) + " |",
                  "|---" * (4 + len(columns)) + "|"]
        for claim in (one for one in ALL if one.source == source):
            cells = []
            for world in ("sim", "lab"):
                runs = results(world, claim.sweep)
                found = judge(claim, runs) if runs is not None else None
                cells.append("no runs" if found is None else found.verdict)
                if world == "sim":
                    verdicts.append(cells[0])
                    cells.append(found.figure if found else "")
                    if is_slides:
                        cells.append(judge(claim, runs, soft=True).verdict if runs is not None else "")
            lines.append(f"| {claim.name} | {claim.where} | {claim.sentence} | {claim.test} | " + " | ".join(cells) + " |")
        counts[source] = tuple(verdicts.count(word) for word in ("holds", "does not hold", "undecided"))
    return "\n".join(lines) + "\n", counts  # type: ignore[return-value]
