"""Srinivasan, Shippey, Aryafar, Chakareski: FBDT (MMSys '23)."""

from __future__ import annotations

import json
import os
import pathlib
from collections import defaultdict
from typing import Any

from .._results import Results, ratios
from .._scenario import Path, Scenario, Trace
from .._sweep import Sweep
from ._catalog import Need, figure
from ._data import WORLDS, Cell, Data, Missing, cdf, published
from ._plot import bars, cdfs, lines

SOURCE = "FBDT"
_CONDITIONS = ["normal", "loss-wigig", "loss-wifi", "delay-wigig", "delay-wifi"]
_PLACES = ["los", "nlos", "mobility"]
_BASE = ["single:wifi", "single:wigig", "linux-mptcp"]


def _steady(quick: bool) -> Sweep:
    scenarios = [f"fbdt-3b-{one}" for one in _CONDITIONS[:3]]
    seeds = range(1, 3) if quick else range(1, 11)
    return Sweep(scenarios, scheme=[*_BASE, "fbdt"], seed=seeds, name="fbdt-3b",
                 duration="3s" if quick else "30s", warmup="1s")


def _delayed(quick: bool) -> Sweep:
    scenarios = [f"fbdt-3b-{one}" for one in _CONDITIONS[3:]]
    seeds = range(1, 2) if quick else range(1, 11)
    return Sweep(scenarios, scheme=[*_BASE, "fbdt"], seed=seeds, name="fbdt-3b-delay",
                 duration="20s" if quick else "60s", warmup="15s")


def _radios(quick: bool) -> Sweep:
    scenarios = [f"fbdt-6c-{one}" for one in _PLACES]
    seeds = range(1, 4) if quick else range(1, 11)
    return Sweep(scenarios, scheme=[*_BASE, "musher", "fbdt"], seed=seeds, name="fbdt-6c",
                 duration="10s" if quick else "60s", warmup="1s")


def _split(quick: bool) -> Sweep:
    rates = ["100Mbps", "25Mbps", "6.25Mbps"] if quick else ["100Mbps", "50Mbps", "25Mbps", "12.5Mbps", "6.25Mbps"]
    delays = ["10ms", "40ms"] if quick else ["10ms", "20ms", "40ms", "80ms", "160ms"]
    return Sweep(
        "fbdt-eq1", scheme=["fbdt", "fbdt-strict", "single:fwd", "single:bwd"],
        seed=range(1, 2) if quick else range(1, 11), name="fbdt-eq1",
        set={"path.bwd.rate": rates, "path.bwd.delay": delays},
    )


# By place, the authors' log of WiGig alone; WiFi alone was logged in line of sight only.
_LOGS = {"los": "iperf_LoS_WIGI.csv", "nlos": "iperf_nLoS_WIGI.csv", "mobility": "iperf_moving_WIGI.csv"}
_WIFI_LOG = "iperf_LoS_WIFI.csv"


def _logged(file: pathlib.Path) -> Trace:
    """The rate that carries what iperf logged each second; its last rows are a rest and the total."""
    rows = file.read_text(encoding="utf-8").split("\n")[1:]
    goodput = [float(row.rsplit(",", 1)[1]) for row in rows if "," in row][:-2]
    # Of 1500 bytes on the link 1448 are the application's.
    rates = [f"{second},{1500 / 1448 * bps / 1e6:.3f}" for second, bps in enumerate(goodput)]
    return Trace(file.name, "csv", "\n".join(["time_s,rate_mbps", *rates, ""]))


def _replay(quick: bool) -> Sweep | None:
    logs = pathlib.Path(os.environ.get("WEFTLINE_DATA", ""), "fbdt-logs")
    if not (logs / _WIFI_LOG).exists():
        return None
    scenarios = []
    for place, log in _LOGS.items():
        paths = [Path("wifi", trace=_logged(logs / _WIFI_LOG), delay="2ms"),
                 Path("wigig", trace=_logged(logs / log), delay="2ms")]
        scenarios.append(Scenario(f"fbdt-6c-logs-{place}", paths=paths, duration="60s"))
    # Nothing is drawn here: other seeds would be the same runs.
    return Sweep(scenarios, scheme=[*_BASE, "musher", "fbdt"], name="fbdt-6c-logs", duration="20s" if quick else "60s", warmup="1s")


STEADY = Need("fbdt-3b", _steady)
DELAYED = Need("fbdt-3b-delay", _delayed)
RADIOS = Need("fbdt-6c", _radios, series=True)
SPLIT = Need("fbdt-eq1", _split)
REPLAY = Need("fbdt-6c-logs", _replay)


def _published(axes: Any, name: str, groups: list[str], kinds: list[str]) -> None:
    values = {(row["condition"], row["scheme"]): (float(row["value"]), None) for row in published(name)}
    bars(axes, groups, kinds, {"published": values}, "Mb/s")


def _bare(worlds: dict[str, dict[tuple[Any, ...], Cell]], prefix: str) -> dict[str, dict[tuple[Any, ...], Cell]]:
    """Cells by scenario and scheme, without what the names of all scenarios begin with."""
    return {
        world: {(key[0].removeprefix(prefix), *key[1:]): cell for key, cell in cells.items()}
        for world, cells in worlds.items()
    }


@figure("fbdt-3b", SOURCE, "§2.2, Fig. 3b", "Throughput with loss or delay on one path", needs=[STEADY, DELAYED],
        lab="sudo weftline lab sweep results/sweeps/fbdt-3b.toml --out results/lab/fbdt-3b")
def fig_3b(data: Data, left: Any, right: Any) -> None:
    kinds = [*_BASE, "fbdt"]
    _published(left, "fbdt-3b", _CONDITIONS, kinds)
    worlds = data.means(STEADY, "goodput_mbps", ["scenario", "scheme"])
    try:
        for world, cells in data.means(DELAYED, "goodput_mbps", ["scenario", "scheme"]).items():
            worlds.setdefault(world, {}).update(cells)
    except Missing:
        pass  # The other conditions are shown without.
    bars(right, _CONDITIONS, kinds, _bare(worlds, "fbdt-3b-"), "goodput, Mb/s")


@figure("fbdt-6c", SOURCE, "§6.2, Fig. 6c", "Throughput in line of sight, without it, and in motion", needs=[RADIOS],
        lab="sudo weftline lab sweep results/sweeps/fbdt-6c.toml --out results/lab/fbdt-6c")
def fig_6c(data: Data, left: Any, right: Any) -> None:
    kinds = [*_BASE, "musher", "fbdt"]
    _published(left, "fbdt-6c", _PLACES, kinds)
    worlds = data.means(RADIOS, "goodput_mbps", ["scenario", "scheme"])
    bars(right, _PLACES, kinds, _bare(worlds, "fbdt-6c-"), "goodput, Mb/s")


@figure("fbdt-6c-logs", SOURCE, "§6.2, Fig. 6c, the means of the authors' logs",
        "The same over the rates that the authors logged, second by second", needs=[REPLAY])
def fig_6c_logs(data: Data, left: Any, right: Any) -> None:
    kinds = [*_BASE, "musher", "fbdt"]
    _published(left, "fbdt-6c-logs", _PLACES, kinds)
    worlds = data.means(REPLAY, "goodput_mbps", ["scenario", "scheme"])
    bars(right, _PLACES, kinds, _bare(worlds, "fbdt-6c-logs-"), "goodput, Mb/s")


def seconds(results: Results, scenario: str) -> dict[str, list[float]]:
    """By scheme, the goodput of each second of each run, from the series."""
    table = results.series
    schemes, scenarios = results["scheme"], results["scenario"]
    steps: dict[tuple[int, int], list[float]] = defaultdict(list)
    columns = (table.column(name) for name in ("time_s", "run", "path", "metric", "value"))
    for time_s, run, path, metric, value in zip(*columns):
        if path == "" and metric == "goodput_mbps" and scenarios[run] == scenario:
            steps[run, int(time_s - 1e-6)].append(value)
    by_scheme: dict[str, list[float]] = defaultdict(list)
    for (run, second), values in steps.items():
        # The first second is slow start.
        if second >= 1 and len(values) == 10:
            by_scheme[schemes[run]].append(sum(values) / 10)
    return by_scheme


def _distribution(data: Data, right: Any, scenario: str) -> None:
    curves = {}
    for world in WORLDS:
        results = data.results(RADIOS, world)
        if results is not None:
            for scheme, values in sorted(seconds(results, scenario).items()):
                curves[scheme if world == "sim" else f"{scheme} (lab)"] = cdf(values)
    if not curves:
        raise Missing("sim/fbdt-6c with series")
    cdfs(right, curves, "goodput of a second, Mb/s")


@figure("fbdt-6d", SOURCE, "§6.2, Fig. 6d", "Distribution of throughput in line of sight", needs=[RADIOS],
        says="MPTCP varies from 1000 to 1800 Mb/s.\nFBDT and MuSher have at least 1700 Mb/s for 85 % of the time.")
def fig_6d(data: Data, left: Any, right: Any) -> None:
    _distribution(data, right, "fbdt-6c-los")


@figure("fbdt-6e", SOURCE, "§6.2, Fig. 6e", "Distribution of throughput in motion", needs=[RADIOS],
        says="WiGig has a higher spread in motion.\nMuSher has close to half of MPTCP.\nFBDT is slightly below the "
        "sum of WiFi and WiGig.")
def fig_6e(data: Data, left: Any, right: Any) -> None:
    _distribution(data, right, "fbdt-6c-mobility")


@figure("fbdt-eq1", SOURCE, "§3.2, Eq. 1", "The forward path's share of a window", needs=[SPLIT],
        says="N_fwd = N · W_fwd RTT_bwd ÷ (W_fwd RTT_bwd + W_bwd RTT_fwd):\nthe share of its throughput in the sum.")
def eq_1(data: Data, left: Any, right: Any) -> None:
    results = data.wanted(SPLIT)
    alone = _alone(results)
    for scheme, marker in (("fbdt", "o"), ("fbdt-strict", "x")):
        at, shares = [], []
        for run in results:
            key = (run["seed"], tuple(sorted(run["case"].items())))
            if run["scheme"] == scheme and len(alone[key]) == 2:
                sent = {path["name"]: path.get("goodput_mbps") or 0.0 for path in run["paths"]}
                at.append(alone[key]["fwd"] / sum(alone[key].values()))
                shares.append(sent["fwd"] / max(sum(sent.values()), 1e-9))
        right.plot(at, shares, marker, markersize=4, label=scheme, alpha=0.7)
    right.plot([0.4, 1], [0.4, 1], linewidth=0.7, color="grey", label="Eq. 1")
    right.set_xlabel("share by Eq. 1, of the paths' own TCP")
    right.set_ylabel("share measured")
    right.legend(fontsize=6, frameon=False)


def _alone(results: Results) -> dict[Any, dict[str, float]]:
    """By seed and case, the goodput of each path alone."""
    alone: dict[Any, dict[str, float]] = defaultdict(dict)
    for run in results:
        if run["scheme"].startswith("single:") and run.get("goodput_mbps"):
            key = (run["seed"], tuple(sorted(run["case"].items())))
            alone[key][run["scheme"].removeprefix("single:")] = run["goodput_mbps"]
    return alone


@figure("fbdt-eq2", SOURCE, "§3.2, Eq. 2", "Throughput ÷ the sum of the paths", needs=[SPLIT],
        says="Throughput = γ (W_fwd ÷ RTT_fwd + W_bwd ÷ RTT_bwd)\nwith γ \"very close to one\".")
def eq_2(data: Data, left: Any, right: Any) -> None:
    results = data.wanted(SPLIT)
    found = ratios(results)
    curves = {}
    for scheme in ("fbdt", "fbdt-strict"):
        curves[scheme] = cdf(ratio["to_sum"] for ratio in found if ratio["scheme"] == scheme)
    cdfs(right, curves, "γ")
    right.axvline(1, linewidth=0.7, color="grey")


_VR = "vr/vr.jsonl"
_VR_LAB = "weftline vr evaluate … --rates RATES --out results/vr"


def _sessions(data: Data) -> list[dict[str, Any]]:
    return data.json(_VR)


@figure("fbdt-3c", SOURCE, "§2.2, Fig. 3c", "Viewport quality against the rate", files=[_VR], lab=_VR_LAB,
        says="The quality of the viewport of Runner (8K, 120 pictures a second) falls with the rate: a drop of the "
        "rate is a major loss of quality.")
def fig_3c(data: Data, left: Any, right: Any) -> None:
    points: dict[str, list[tuple[float, Cell]]] = defaultdict(list)
    for session in _sessions(data):
        if session.get("constant"):
            points[session["scheme"]].append((session["rate_mbps"], (session["psnr_db"], None)))
    if not points:
        raise Missing(f"{_VR} with constant rates")
    lines(right, points, "rate, Mb/s", "PSNR, dB")


# The readings of the figure that are shown; the others are its parts.
_PAIRINGS = ("paper's pairing", "as printed", "ours")


def gains(sessions: list[dict[str, Any]]) -> dict[tuple[str, str], Cell]:
    """By place, and by reading and concealment, the gain in dB of the mean MSE with its interval over
    videos and windows of the rates: these are the independent draws. Viewers of one video and window
    share content, P(t), plan and rates, and are averaged first, as `vr evaluate` does."""
    from .. import _weftline

    cells: dict[tuple[str, str], Cell] = {}
    for condition, concealment, step, of_mean, _ in _weftline.vr_gains([json.dumps(one) for one in sessions]):
        if step in _PAIRINGS:
            cells[condition.removeprefix("fbdt-6c-").lower(), f"{step}, {concealment}"] = of_mean[:2]
    return cells


@figure("fbdt-6f", SOURCE, "§6.3, Fig. 6f", "Gain of OWS over FBDT against FIX over MPTCP", files=[_VR], lab=_VR_LAB)
def fig_6f(data: Data, left: Any, right: Any) -> None:
    values = {(row["condition"], "gain"): (float(row["value"]), None) for row in published("fbdt-6f")}
    bars(left, _PLACES, ["gain"], {"published": values}, "dB")
    means = gains(_sessions(data))
    if not means:
        raise Missing(f"{_VR} of ows over fbdt and fix over linux")
    bars(right, _PLACES, sorted({kind for _, kind in means}), {"sim": means},
         "dB, 95 % over videos and windows")
