"""COTAG: coded taking and giving in dually connected networks."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from .._sweep import Sweep
from ._catalog import Need, Size, chosen, figure
from ._data import Cell, Data, Missing, cdf
from ._plot import bars, cdfs, lines

SOURCE = "COTAG"
_SAYS = "Error bars are 90 % intervals; the figure prints no numbers. CUBIC, packets of 128 bytes, ours 1500. "
_DELAYS = ["0ms", "5ms", "10ms", "20ms", "40ms"]


_FIVE_SIX = ["cotag-fig5", "cotag-fig6"]
# The paper's gateway: it has no queue, and all of a cohort waits for its end.
_PRINTED = {"queue": False, "cut_through": False, "interval": "2ms", "redundancy": 100}


def _sweep(scenario: str | list[str], name: str, size: Size, **keys: Any) -> Sweep:
    more = keys.pop("set", {})
    swept = {"packet_size": [1500], "workload.parallel": [4], "loss": [0.0, 0.00001],
             "backend.delay": chosen(size, ["0ms", "10ms", "40ms"], _DELAYS), **more}
    return Sweep(scenario, scheme=["musher", "cotag"], seed=range(1, chosen(size, 3, 11)), name=name, set=swept, **keys)


def _ablation(size: Size) -> Sweep:
    parts = [{"queue": False}, {"pacing": False}, {"giving": True}, {"recoding": False}, {"cut_through": False},
             {"redundancy": 0}, {"redundancy": "learned"}]
    return Sweep(
        "cotag-fig6", scheme=["cotag", "cotag-dense"], seed=range(1, chosen(size, 3, 11)),
        name="cotag-ablation",
        set={"packet_size": [1500], "workload.parallel": [4], "loss": [0.00001], "backend.delay": ["10ms"],
             "cotag": parts},
    )


def _intervals(size: Size) -> Sweep:
    intervals = ["2ms", "5ms", "10ms", "20ms", "40ms"]
    parts = [{"interval": interval, "cut_through": cut} for cut in (True, False) for interval in intervals]
    return Sweep(
        "cotag-fig6", scheme="cotag", seed=range(1, chosen(size, 3, 11)), name="cotag-interval",
        set={"packet_size": [1500], "workload.parallel": [4], "loss": [0.00001], "backend.delay": ["10ms"],
             "cotag": parts},
    )


def _channel(size: Size) -> Sweep:
    return Sweep("cotag-fig5", scheme="single:mmwave", seed=range(1, chosen(size, 3, 11)), name="cotag-channel",
                 duration=chosen(size, "10s", "60s"), set={"packet_size": [1500], "workload.parallel": [1]})


FIG5 = Need("cotag-fig5", lambda size: _sweep("cotag-fig5", "cotag-fig5", size))
FIG6 = Need("cotag-fig6", lambda size: _sweep("cotag-fig6", "cotag-fig6", size))
PRINTED = Need("cotag-printed", lambda size: _sweep(_FIVE_SIX, "cotag-printed", size, set={"cotag": [_PRINTED]}))
WARM = Need("cotag-warm", lambda size: _sweep(_FIVE_SIX, "cotag-warm", size, set={"scheduler.ratio": [23]}))
BBR = Need("cotag-bbr", lambda size: _sweep("cotag-fig6", "cotag-bbr", size, congestion="bbr"))
ABLATION = Need("cotag-ablation", _ablation)
INTERVAL = Need("cotag-interval", _intervals)
CHANNEL = Need("cotag-channel", _channel, series=True)


def _over_delay(
    data: Data, needs: dict[str, Need], scenario: str, value: str, loss: float, right: Any, label: str
) -> None:
    """Curves over the delay of the back end; `needs` by what is added to the names of its schemes."""
    curves: dict[str, list[tuple[float, Cell]]] = defaultdict(list)
    missing = None
    for suffix, need in needs.items():
        try:
            worlds = data.means(need, value, ["scenario", "scheme", "loss", "backend.delay"], confidence=0.90)
        except Missing as error:
            missing = missing or error
            continue
        for cells in worlds.values():
            for (name, scheme, errors, delay_s), cell in cells.items():
                # COTAG has no ratio to know, and MuSher asks nothing of the gateway.
                is_same = (suffix, scheme) in (("at its ratio", "cotag"), ("as printed", "musher"))
                if (name, errors) == (scenario, loss) and not is_same:
                    curves[f"{scheme} {suffix}".strip()].append((delay_s * 1e3, cell))
    if not curves and missing:
        raise missing
    lines(right, curves, "delay of the back end, ms", label)


_WAYS = {"": FIG5, "as printed": PRINTED, "at its ratio": WARM}
_WAYS_6 = {**_WAYS, "": FIG6}
_ASIDE = (" Dashed: as printed, without a queue at the gateway, and MuSher that knows the radios' ratio from earlier "
          "connections.")


@figure("cotag-5a", SOURCE, "§IV-B, Fig. 5a", "Short-term throughput without packet errors", needs=[FIG5, PRINTED, WARM],
        says=_SAYS + "COTAG has more short-term throughput than MuSher at each delay; both fall as it grows." + _ASIDE)
def fig_5a(data: Data, left: Any, right: Any) -> None:
    _over_delay(data, _WAYS, "cotag-fig5", "goodput_mbps", 0.0, right, "throughput, Mb/s, 90 %")


@figure("cotag-5b", SOURCE, "§IV-B, Fig. 5b", "Short-term throughput with 0.001 % of packet errors", needs=[FIG5, PRINTED, WARM],
        says=_SAYS + "With packet errors TCP suffers more from the delay; COTAG is above MuSher." + _ASIDE)
def fig_5b(data: Data, left: Any, right: Any) -> None:
    _over_delay(data, _WAYS, "cotag-fig5", "goodput_mbps", 0.00001, right, "throughput, Mb/s, 90 %")


@figure("cotag-6a", SOURCE, "§IV-B, Fig. 6a", "Time for 1 Gb without packet errors", needs=[FIG6, PRINTED, WARM],
        says=_SAYS + "COTAG takes much less time than MuSher at each delay." + _ASIDE)
def fig_6a(data: Data, left: Any, right: Any) -> None:
    _over_delay(data, _WAYS_6, "cotag-fig6", "completion_s", 0.0, right, "time for 1 Gb, s, 90 %")


@figure("cotag-6b", SOURCE, "§IV-B, Fig. 6b", "Time for 1 Gb with 0.001 % of packet errors", needs=[FIG6, PRINTED, WARM],
        says=_SAYS + "COTAG takes much less time than MuSher at each delay." + _ASIDE)
def fig_6b(data: Data, left: Any, right: Any) -> None:
    _over_delay(data, _WAYS_6, "cotag-fig6", "completion_s", 0.00001, right, "time for 1 Gb, s, 90 %")


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
    _over_delay(data, {"": BBR}, "cotag-fig6", "completion_s", 0.00001, right, "time for 1 Gb, s, 90 %")


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
