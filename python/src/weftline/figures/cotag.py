"""COTAG: coded taking and giving in dually connected networks."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from .._sweep import Sweep
from ._catalog import Need, figure
from ._data import Cell, Data, Missing, cdf
from ._plot import bars, cdfs, lines

SOURCE = "COTAG"
_SAYS = ("Error bars are 90 % intervals; the figure prints no numbers. CUBIC, packets of 128 bytes, ours 1500. ")
_DELAYS = ["0ms", "5ms", "10ms", "20ms", "40ms"]


def _sweep(name: str, quick: bool, **keys: Any) -> Sweep:
    delays = ["0ms", "10ms", "40ms"] if quick else _DELAYS
    swept = {"packet_size": [1500], "workload.parallel": [4], "loss": [0.0, 0.00001], "backend.delay": delays}
    return Sweep(name, scheme=["musher", "cotag"], seed=range(1, 3) if quick else range(1, 11), name=name,
                 set=swept, **keys)


def _ablation(quick: bool) -> Sweep:
    parts = [{"queue": False}, {"pacing": False}, {"giving": True}, {"recoding": False}, {"cut_through": False},
             {"redundancy": 0}, {"redundancy": "learned"}]
    return Sweep(
        "cotag-fig6", scheme=["cotag", "cotag-dense"], seed=range(1, 3) if quick else range(1, 11),
        name="cotag-ablation",
        set={"packet_size": [1500], "workload.parallel": [4], "loss": [0.00001], "backend.delay": ["10ms"],
             "cotag": parts},
    )


def _intervals(quick: bool) -> Sweep:
    intervals = ["2ms", "5ms", "10ms", "20ms", "40ms"]
    parts = [{"interval": interval, "cut_through": cut} for cut in (True, False) for interval in intervals]
    return Sweep(
        "cotag-fig6", scheme="cotag", seed=range(1, 3) if quick else range(1, 11), name="cotag-interval",
        set={"packet_size": [1500], "workload.parallel": [4], "loss": [0.00001], "backend.delay": ["10ms"],
             "cotag": parts},
    )


def _channel(quick: bool) -> Sweep:
    return Sweep("cotag-fig5", scheme="single:mmwave", seed=range(1, 3 if quick else 11), name="cotag-channel",
                 duration="10s" if quick else "60s", set={"packet_size": [1500], "workload.parallel": [1]})


FIG5 = Need("cotag-fig5", lambda quick: _sweep("cotag-fig5", quick, **({"duration": "2s"} if quick else {})))
FIG6 = Need("cotag-fig6", lambda quick: _sweep("cotag-fig6", quick))
BBR = Need("cotag-bbr", lambda quick: _sweep("cotag-fig6", quick, congestion="bbr"))
ABLATION = Need("cotag-ablation", _ablation)
INTERVAL = Need("cotag-interval", _intervals)
CHANNEL = Need("cotag-channel", _channel, series=True)


def _over_delay(data: Data, need: Need, value: str, loss: float, right: Any, label: str) -> None:
    curves: dict[str, list[tuple[float, Cell]]] = defaultdict(list)
    for cells in data.means(need, value, ["scheme", "loss", "backend.delay"]).values():
        for (scheme, errors, delay_s), cell in cells.items():
            if errors == loss:
                curves[scheme].append((delay_s * 1e3, cell))
    lines(right, curves, "delay of the back end, ms", label)


@figure("cotag-5a", SOURCE, "§IV-B, Fig. 5a", "Short-term throughput without packet errors", needs=[FIG5],
        says=_SAYS + "COTAG has more short-term throughput than MuSher at each delay; both fall as it grows.")
def fig_5a(data: Data, left: Any, right: Any) -> None:
    _over_delay(data, FIG5, "short_term_mbps.p50", 0.0, right, "median of 100 ms, Mb/s")


@figure("cotag-5b", SOURCE, "§IV-B, Fig. 5b", "Short-term throughput with 0.001 % of packet errors", needs=[FIG5],
        says=_SAYS + "With packet errors TCP suffers more from the delay; COTAG is above MuSher.")
def fig_5b(data: Data, left: Any, right: Any) -> None:
    _over_delay(data, FIG5, "short_term_mbps.p50", 0.00001, right, "median of 100 ms, Mb/s")


@figure("cotag-6a", SOURCE, "§IV-B, Fig. 6a", "Time for 1 Gb without packet errors", needs=[FIG6],
        says=_SAYS + "COTAG takes much less time than MuSher at each delay.")
def fig_6a(data: Data, left: Any, right: Any) -> None:
    _over_delay(data, FIG6, "completion_s", 0.0, right, "time for 1 Gb, s")


@figure("cotag-6b", SOURCE, "§IV-B, Fig. 6b", "Time for 1 Gb with 0.001 % of packet errors", needs=[FIG6],
        says=_SAYS + "COTAG takes much less time than MuSher at each delay.")
def fig_6b(data: Data, left: Any, right: Any) -> None:
    _over_delay(data, FIG6, "completion_s", 0.00001, right, "time for 1 Gb, s")


@figure("cotag-3b", SOURCE, "§IV-A, Fig. 3b", "The channel of a head that turns", needs=[CHANNEL],
        says="The rate of an 802.11ay link on a headset, measured each 10 ms by trains of 30 packets. The figure is "
        "a photograph; the trace is not published. Ours is generated (scenario generator `headset`).")
def fig_3b(data: Data, left: Any, right: Any) -> None:
    table = data.wanted(CHANNEL).series
    rates: dict[int, list[float]] = defaultdict(list)
    for run, path, metric, value in zip(*(table.column(key) for key in ("run", "path", "metric", "value"))):
        if path == "mmwave" and metric == "capacity_mbps":
            rates[run].append(value)
    if not rates:
        raise Missing("sim/cotag-channel with series")
    every = [value for values in rates.values() for value in values]
    cdfs(right, {"capacity of 100 ms": cdf(every)}, "Mb/s")
    inset = right.inset_axes((0.12, 0.55, 0.5, 0.38))
    first = rates[0][:100]
    inset.plot([step / 10 for step in range(len(first))], first, linewidth=0.7, color="#4c72b0")
    inset.set_xlabel("s", fontsize=6)
    inset.set_ylabel("Mb/s", fontsize=6)
    inset.tick_params(labelsize=5)


@figure("cotag-bbr", SOURCE, "ours: why", "The same with BBR in place of CUBIC", needs=[BBR],
        says="The paper measures with CUBIC only.")
def bbr(data: Data, left: Any, right: Any) -> None:
    _over_delay(data, BBR, "completion_s", 0.00001, right, "time for 1 Gb, s")


# What the cases of a sweep set of `[cotag]`.
_SETTINGS = ("queue", "pacing", "giving", "recoding", "cut_through", "redundancy", "interval")


def _parts(data: Data, need: Need) -> list[tuple[dict[str, Any], str, Cell]]:
    """What each case of a sweep sets, the scheme, and the time for 1 Gb."""
    columns = data.wanted(need).columns
    settings = [name for name in _SETTINGS if f"cotag.{name}" in columns]
    cells = data.means(need, "completion_s", [*(f"cotag.{name}" for name in settings), "scheme"])["sim"]
    return [
        ({name: value for name, value in zip(settings, key) if value is not None}, key[-1], cell)
        for key, cell in cells.items()
    ]


@figure("cotag-ablation", SOURCE, "§III, ours: why", "What each part of COTAG earns", needs=[ABLATION],
        says="\"Coded forwarding, taking and giving\" together enhance TCP; the paper takes none of them away.")
def ablation(data: Data, left: Any, right: Any) -> None:
    cells: dict[tuple[Any, ...], Cell] = {}
    for part, scheme, cell in _parts(data, ABLATION):
        cells[", ".join(f"{key} {value}" for key, value in part.items()), scheme] = cell
    groups = list(dict.fromkeys(group for group, _ in cells))
    bars(right, groups, ["cotag", "cotag-dense"], {"sim": cells}, "time for 1 Gb, s",
         [group.replace(" ", "\n") for group in groups])


@figure("cotag-interval", SOURCE, "§III-A, ours: why", "The interval T, and packets that need not wait for its end",
        needs=[INTERVAL], says="A cohort is buffered for T and forwarded at its end. The paper gives no T of its "
        "simulations. With `cut_through` packets are forwarded as they come.")
def interval(data: Data, left: Any, right: Any) -> None:
    curves: dict[str, list[tuple[float, Cell]]] = defaultdict(list)
    for part, _, cell in _parts(data, INTERVAL):
        key = "cotag" if part["cut_through"] == "true" else "cotag that waits"
        curves[key].append((1e3 * part["interval"], cell))
    lines(right, curves, "T, ms", "time for 1 Gb, s")
