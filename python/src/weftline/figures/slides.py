"""Kondo, Cavendish, Nobayashi, Ikenaga: MPTCP with BBR for video streaming (INTERNET 2022, slides)."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from .._scenario import Scenario
from .._sweep import Sweep
from ._catalog import Need, Size, chosen, figure
from ._data import Cell, Data, published
from ._plot import bars
from .claims import SLIDES as CLAIMS
from .claims import judge
from .counts import resent

SOURCE = "MPTCP with BBR"
SCENARIOS = ["mptcp-a1", "mptcp-a2", "mptcp-b1", "mptcp-b2"]
STRICT = ["min-rtt", "lpc", "let", "gr-sty", "tp-sty", "tr-sty"]
SCHEDULERS = [*STRICT, "tp-sty-soft", "tr-sty-soft"]
CONTROLS = ["bbr", "cubic", "compound", "lia", "olia", "balia"]
_LAB = "sudo scripts/figures lab"


def _video(size: Size) -> Sweep:
    # The pair of rates at which buffers do run dry: the slides give none.
    rates = {"path.wifi.rate": ["8Mbps"], "path.lte.rate": ["4Mbps"]}
    # In the lab a real player plays, in real time. Four runs without an event are the fewest that show that
    # there is less than one in the mean.
    player = {"workload": "vlc"} if size == "lab" else {}
    return Sweep(SCENARIOS, scheme=chosen(size, SCHEDULERS, SCHEDULERS, STRICT), congestion=CONTROLS,
                 seed=range(1, chosen(size, 5, 11, 5)), name="mptcp-video", set=rates, **player)


def _rates(size: Size) -> Sweep:
    wifi, lte = chosen(size, (["8Mbps", "20Mbps"], ["4Mbps", "15Mbps"]), (
        ["6Mbps", "10Mbps", "20Mbps", "54Mbps"], ["4Mbps", "8Mbps", "15Mbps", "50Mbps"]))
    return Sweep(SCENARIOS, scheme=STRICT, congestion=CONTROLS, seed=range(1, chosen(size, 5, 11)),
                 name="mptcp-rates", set={"path.wifi.rate": wifi, "path.lte.rate": lte})


VIDEO = Need("mptcp-video", _video)
RATES = Need("mptcp-rates", _rates)

_SAYS = {
    ("a1", "video"): "Except for LIA, the video quality is excellent.",
    ("a1", "packets"): "LTE path is most used.",
    ("a1", "resent"): "BBR has a high number of retransmissions.",
    ("a2", "video"): "Compound, OLIA and BALIA have a large buffer underflow and picture discard performance using "
    "TP-STY scheduler. LIA variants perform poorly.",
    ("a2", "packets"): "TCP variants of poor video performance under TP-STY prefer the WiFi path to the LTE path.",
    ("a2", "resent"): "Larger retransmissions for BBR than other variants across schedulers except TP-STY on the "
    "WiFi path.",
    ("b1", "video"): "A wide variety of performances. Impressive is the consistent good performance of BBR, even "
    "across all schedulers.",
    ("b1", "packets"): "BBR maintains a better WiFi utilization, striking a balance across all packet schedulers.",
    ("b1", "resent"): "BBR with a significantly larger number of retransmissions across all schedulers.",
    ("b2", "video"): "Only BBR and CUBIC deliver good performance across all schedulers. LIA variants all deliver "
    "large buffer underflow.",
    ("b2", "packets"): "Large LTE path utilization across all TCP variants.",
    ("b2", "resent"): "BBR retransmits more than the other congestion control variants.",
}
# No columns of a record: what real players discard without links is subtracted, and what they sent again is
# what the links lost.
_DISCARDS, _RESENT = "discards", {"resent-lte": "lte", "resent-wifi": "wifi"}
# The column of a record, what the axis says, and the slide's kind.
_PANELS = {
    "underflows": ("video.buffer_underflows", "buffer underflows", "video"),
    "discards": (_DISCARDS, "pictures discarded", "video"),
    "packets-lte": ("paths.lte.packets", "packets on LTE", "packets"),
    "packets-wifi": ("paths.wifi.packets", "packets on WiFi", "packets"),
    "resent-lte": ("resent-lte", "packets sent again on LTE", "resent"),
    "resent-wifi": ("resent-wifi", "packets sent again on WiFi", "resent"),
}


def _panel(scenario: str, column: str, label: str) -> Callable[[Data, Any, Any], None]:
    def draw(data: Data, left: Any, right: Any) -> None:
        by = ["scenario", "scheme", "congestion"]
        if column == _DISCARDS:
            found = data.discards(VIDEO, by)
        elif column in _RESENT:
            found = data.counted(VIDEO, lambda run: resent(run, [_RESENT[column]]), by)
        else:
            found = data.means(VIDEO, column, by)
        cells = {
            world: {key[1:]: cell for key, cell in of.items() if key[0] == scenario}
            for world, of in found.items()
        }
        shown = [name for name in SCHEDULERS if any(key[0] == name for of in cells.values() for key in of)]
        bars(right, shown, CONTROLS, cells, label)

    return draw


for _scenario in SCENARIOS:
    _short = _scenario.removeprefix("mptcp-")
    for _key, (_column, _label, _kind) in _PANELS.items():
        figure(
            f"slides-{_short}-{_key}", SOURCE, f"slide \"Scenario {_short.upper()}\", {_label}",
            f"{_short.upper()}: {_label}, by scheduler and congestion control", needs=[VIDEO], lab=_LAB,
            says=f"\"{_SAYS[_short, _kind]}\"",
        )(_panel(_scenario, _column, _label))


def _of_bbr(worlds: dict[str, dict[tuple[Any, ...], Cell]]) -> dict[str, dict[tuple[Any, ...], Cell]]:
    """By scenario and scheduler, of cells by scenario, scheduler and control."""
    return {
        world: {(key[0].removeprefix("mptcp-").upper(), key[1]): cell for key, cell in of.items() if key[2] == "bbr"}
        for world, of in worlds.items()
    }


@figure("slides-bbr-discards", SOURCE, "slide \"Results: evaluation\", picture discard", "BBR: pictures discarded",
        needs=[VIDEO], lab=_LAB, says="\"All schedulers with BBR result in good performance.\"")
def bbr_discards(data: Data, left: Any, right: Any) -> None:
    worlds = _of_bbr(data.discards(VIDEO, ["scenario", "scheme", "congestion"]))
    bars(right, ["A1", "A2", "B1", "B2"], SCHEDULERS, worlds, "pictures discarded of 5,400")


@figure("slides-bbr-resent", SOURCE, "slide \"Results: evaluation\", retransmit packets", "BBR: packets sent again",
        needs=[VIDEO], lab=_LAB, says="\"BBR retransmits more than other congestion control variants.\"")
def bbr_resent(data: Data, left: Any, right: Any) -> None:
    worlds = _of_bbr(data.counted(VIDEO, resent, ["scenario", "scheme", "congestion"]))
    bars(right, ["A1", "A2", "B1", "B2"], SCHEDULERS, worlds, "packets sent again")


@figure("slides-loss", SOURCE, "slides \"Experimental Scenarios\" 3 and 4", "Packet loss on WiFi over time")
def loss(data: Data, left: Any, right: Any) -> None:
    rows = published("loss")
    for scenario in ("A", "B"):
        steps = [(float(row["time"]), float(row["loss"])) for row in rows if row["scenario"] == scenario]
        left.step(*zip(*steps), where="post", label=scenario, linewidth=1)
        ours = tomllib.loads(Scenario.load(f"mptcp-{scenario.lower()}1").text)["path"][0]["loss"]
        steps = [(float(step["at"].removesuffix("s")), 100 * step["rate"]) for step in ours]
        right.step(*zip(*steps, (180.0, steps[-1][1])), where="post", label=f"mptcp-{scenario.lower()}1", linewidth=1)
    for axes in (left, right):
        axes.set_xlabel("s")
        axes.set_ylabel("loss, %")
        axes.legend(fontsize=6, frameon=False)


@figure("slides-claims", SOURCE, "the sentences of all slides", "At which rates the slides' claims hold", needs=[RATES],
        says="The slides do not give the rates of the links. Green holds, red does not, grey is undecided: "
        "docs/claims.md has each claim with its test.")
def claims(data: Data, left: Any, right: Any) -> None:
    results = data.wanted(RATES)
    pairs: dict[tuple[float, float], list[dict[str, Any]]] = defaultdict(list)
    for run, wifi, lte in zip(results, results["path.wifi.rate"], results["path.lte.rate"]):
        pairs[wifi, lte].append(run)
    colours = {"holds": "#2d8659", "does not hold": "#c0392b", "undecided": "#c8c8c8", "no runs": "white"}
    for row, pair in enumerate(sorted(pairs)):
        for column, claim in enumerate(CLAIMS):
            verdict = judge(claim, pairs[pair]).verdict
            right.add_patch(_square(column, row, colours[verdict]))
    right.set_xlim(0, len(CLAIMS))
    right.set_ylim(0, len(pairs))
    right.set_yticks([row + 0.5 for row in range(len(pairs))],
                     [f"{wifi / 1e6:g} / {lte / 1e6:g}" for wifi, lte in sorted(pairs)], fontsize=6)
    right.set_xticks([column + 0.5 for column in range(len(CLAIMS))],
                     [claim.name for claim in CLAIMS], rotation=90, fontsize=5)
    right.set_ylabel("WiFi / LTE, Mb/s")


def _square(x: float, y: float, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x + 0.04, y + 0.06), 0.92, 0.88, color=colour)
