"""What no source shows: random bonds, sizes, blackouts, and how far the simulator is to be trusted."""

from __future__ import annotations

import pathlib
import time
from typing import Any

from .._results import ratios
from .._runs import run
from .._scenario import Path, Scenario
from .._sweep import Sweep
from ._catalog import FIGURES, Need, Size, chosen, figure
from ._data import WORLDS, Cell, Data, Missing, cdf
from ._plot import bars, cdfs, lines

SOURCE = "Ours"


def _random(size: Size) -> Sweep:
    whole, runs = Sweep.load("random-wan"), chosen(size, 24, 100, 12)
    text = whole.text.replace("runs = 500", f"runs = {runs}").replace('"500 bonds', f'"{runs} bonds')
    if size != "full":
        text = text.replace('["cubic", "bbr"]', '"cubic"')
    return Sweep.parse("random-wan", text)


def _blackouts(size: Size) -> Sweep:
    return Sweep("fbdt-blackout", scheme=["single:wifi", "linux-mptcp", "min-rtt", "fbdt", "earliest"],
                 seed=range(1, chosen(size, 4, 11, 6)), name="blackout", duration=chosen(size, "8s", "30s"), warmup="1s")


RANDOM = Need("random-wan", _random)
BLACKOUT = Need("blackout", _blackouts)
_SCHEMES = ["earliest", "fbdt", "min-rtt", "linux-mptcp"]


def _ratios(data: Data, key: str, right: Any, across: str) -> None:
    found = ratios(data.wanted(RANDOM))
    curves = {scheme: cdf(one[key] for one in found if one["scheme"] == scheme) for scheme in _SCHEMES}
    cdfs(right, {scheme: curve for scheme, curve in curves.items() if curve[0]}, across)
    right.axvline(1, linewidth=0.7, color="grey")


_DRAWS = ("Draws of two to four ordinary links: DSL, cable, fibre, LTE, 5G, low orbit, WiFi; downloads and uploads "
          "(sweep `random-wan`).")


@figure("ours-sum", SOURCE, "", "Random bonds: goodput ÷ the sum of the paths' own TCP", needs=[RANDOM], says=_DRAWS)
def to_sum(data: Data, left: Any, right: Any) -> None:
    _ratios(data, "to_sum", right, "÷ sum")


@figure("ours-best", SOURCE, "", "Random bonds: goodput ÷ the best path's own TCP", needs=[RANDOM], says=_DRAWS)
def to_best(data: Data, left: Any, right: Any) -> None:
    _ratios(data, "to_best", right, "÷ best")


@figure("ours-blackout", SOURCE, "", "Goodput where WiGig goes to zero now and then", needs=[BLACKOUT],
        says="WiFi 476 Mb/s, WiGig 1600 Mb/s, which goes to zero for 0.3 to 1.5 s every few seconds.")
def blackout(data: Data, left: Any, right: Any) -> None:
    _bars(data, "goodput_mbps", right, "goodput, Mb/s")


@figure("ours-gap", SOURCE, "", "The longest time without data where WiGig goes to zero", needs=[BLACKOUT],
        says="The longest gap in what the application is handed, of each run.")
def gap(data: Data, left: Any, right: Any) -> None:
    _bars(data, "longest_gap_ms", right, "longest gap, ms")


def _bars(data: Data, value: str, right: Any, label: str) -> None:
    worlds = data.means(BLACKOUT, value, ["scheme"])
    schemes = ["single:wifi", "linux-mptcp", "min-rtt", "fbdt", "earliest"]
    cells = {world: {("", key[0]): cell for key, cell in of.items()} for world, of in worlds.items()}
    bars(right, [""], schemes, cells, label)


@figure("ours-sizes", SOURCE, "", "Downloads of 10 kB to 1 GB ÷ the best path", files=["sizes.csv"],
        lab="sudo scripts/figures lab",
        says="Median time of a download through the daemons ÷ that of the best path alone, warm and cold.")
def sizes(data: Data, left: Any, right: Any) -> None:
    curves: dict[str, list[tuple[float, Cell]]] = {}
    for row in data.csv("sizes.csv"):
        curves.setdefault(row["case"], []).append((float(row["bytes"]), (float(row["ratio"]), None)))
    lines(right, curves, "bytes", "÷ best path")
    right.set_xscale("log")


@figure("ours-worlds", SOURCE, "", "The lab against the simulator", says="Each point is a mean over seeds of a sweep "
        "that was run in both: on the line they agree.")
def worlds(data: Data, left: Any, right: Any) -> None:
    sims, labs = [], []
    for need in {need.name: need for one in FIGURES.values() for need in one.needs}.values():
        if all(data.results(need, world) is not None for world in WORLDS):
            found = data.means(need, "goodput_mbps", ["scenario", "scheme", "congestion"])
            both = found["sim"].keys() & found["lab"].keys()
            sims += [found["sim"][key][0] for key in both]
            labs += [found["lab"][key][0] for key in both]
    if not sims:
        raise Missing("lab/… (a sweep in both worlds)")
    right.loglog(sims, labs, "o", markersize=3)
    ends = [min(sims + labs), max(sims + labs)]
    right.plot(ends, ends, linewidth=0.7, color="grey")
    right.set_xlabel("simulator, Mb/s")
    right.set_ylabel("lab, Mb/s")


_RATES = (10, 30, 100, 300, 1000, 3000)


def _measure_speed(root: pathlib.Path) -> None:
    """How much simulated time a second of the processor is worth, the best of three at each rate."""
    rows = ["rate_mbps,simulated_s_per_s"]
    for rate in _RATES:
        # As many packets at each rate.
        length = max(1.0, 2000 / rate)
        paths = [Path(name, rate=f"{rate / 2:g}Mbps", delay=delay) for name, delay in (("one", "10ms"), ("two", "20ms"))]
        links = Scenario("speed", paths=paths, duration=f"{length:g}s", warmup="0s")
        times = []
        for _ in range(3):
            start = time.process_time()
            run(links, "earliest")
            times.append(time.process_time() - start)
        rows.append(f"{rate},{length / min(times):.1f}")
    (root / "speed.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


@figure("ours-speed", SOURCE, "", "How fast the simulator is", files=["speed.csv"], measure=_measure_speed,
        says="Simulated seconds for each second of a processor: `earliest`, CUBIC, two links of 10 and 20 ms that share "
        "the rate. docs/performance.md has more.")
def speed(data: Data, left: Any, right: Any) -> None:
    points: list[tuple[float, Cell]] = [(float(row["rate_mbps"]), (float(row["simulated_s_per_s"]), None)) for row in data.csv("speed.csv")]
    lines(right, {"earliest": points}, "rate, Mb/s", "simulated s ÷ s")
    right.set_xscale("log")
    right.set_yscale("log")
    # An axis of logarithms has no 0 to begin at.
    right.set_ylim(min(speed for _, (speed, _) in points) / 2, max(speed for _, (speed, _) in points) * 2)
