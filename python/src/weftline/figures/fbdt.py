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
from ._catalog import Need, Size, chosen, figure
from ._data import WORLDS, Cell, Data, Missing, cdf, published, seconds
from ._plot import bars, cdfs, lines

SOURCE = "FBDT"
_CONDITIONS = ["normal", "loss-wigig", "loss-wifi", "delay-wigig", "delay-wifi"]
_PLACES = ["los", "nlos", "mobility"]
_BASE = ["single:wifi", "single:wigig", "linux-mptcp"]


def _steady(size: Size) -> Sweep:
    scenarios = [f"fbdt-3b-{one}" for one in _CONDITIONS[:3]]
    return Sweep(scenarios, scheme=[*_BASE, "fbdt"], seed=range(1, chosen(size, 3, 11, 6)), name="fbdt-3b",
                 duration=chosen(size, "3s", "30s"), warmup="1s")


def _delayed(size: Size) -> Sweep:
    scenarios = [f"fbdt-3b-{one}" for one in _CONDITIONS[3:]]
    return Sweep(scenarios, scheme=[*_BASE, "fbdt"], seed=range(1, chosen(size, 2, 11, 6)), name="fbdt-3b-delay",
                 duration=chosen(size, "20s", "60s", "40s"), warmup="15s")


def _radios(size: Size) -> Sweep:
    scenarios = [f"fbdt-6c-{one}" for one in _PLACES]
    return Sweep(scenarios, scheme=[*_BASE, "musher", "fbdt"], seed=range(1, chosen(size, 4, 11, 6)), name="fbdt-6c",
                 duration=chosen(size, "10s", "30s"), warmup="1s")


def _split(size: Size) -> Sweep:
    rates = ["100Mbps", "50Mbps", "25Mbps", "12.5Mbps", "6.25Mbps"]
    delays = ["10ms", "20ms", "40ms", "80ms", "160ms"]
    # Nothing is random here: a second seed shows that, and more of them would be the same runs again.
    return Sweep(
        "fbdt-eq1", scheme=["fbdt", "fbdt-strict", "single:fwd", "single:bwd"], name="fbdt-eq1",
        seed=range(1, 3),
        set={"path.bwd.rate": chosen(size, rates[::2], rates), "path.bwd.delay": chosen(size, delays[::2][:2], delays)},
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


def _replay(size: Size) -> Sweep | None:
    logs = pathlib.Path(os.environ.get("WEFTLINE_DATA", ""), "fbdt-logs")
    if not (logs / _WIFI_LOG).exists():
        return None
    scenarios = []
    for place, log in _LOGS.items():
        paths = [Path("wifi", trace=_logged(logs / _WIFI_LOG), delay="2ms"),
                 Path("wigig", trace=_logged(logs / log), delay="2ms")]
        scenarios.append(Scenario(f"fbdt-6c-logs-{place}", paths=paths, duration="60s"))
    # Nothing is drawn here: other seeds would be the same runs.
    return Sweep(scenarios, scheme=[*_BASE, "musher", "fbdt"], name="fbdt-6c-logs",
                 duration=chosen(size, "20s", "60s"), warmup="1s")


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
        lab="sudo scripts/figures lab")
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
        lab="sudo scripts/figures lab")
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


def _distribution(data: Data, right: Any, scenario: str) -> None:
    curves = {}
    for world in WORLDS:
        results = data.results(RADIOS, world)
        if results is not None:
            of_scheme: dict[str, list[float]] = defaultdict(list)
            for (scheme, _), values in seconds(results, scenario).items():
                of_scheme[scheme] += values
            for scheme, values in sorted(of_scheme.items()):
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


@figure("fbdt-eq1", SOURCE, "§3.1, Eq. 1", "The forward path's share of a window", needs=[SPLIT],
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


# What scripts/fig6f leaves: over the authors' rates of both radios together, and over constant ones.
SESSIONS, _CONSTANT = "fig6f/of-together/vr.jsonl", "fig6f/of-constant/vr.jsonl"
_FIG6F = "WEFTLINE_DATA=… scripts/figures full"


@figure("fbdt-3c", SOURCE, "§2.2, Fig. 3c", "Viewport quality against the rate", files=[_CONSTANT], lab=_FIG6F,
        says="The quality of the viewport of Runner (8K, 120 pictures a second) falls with the rate: a drop of the "
        "rate is a major loss of quality.")
def fig_3c(data: Data, left: Any, right: Any) -> None:
    from .. import _weftline

    # Viewers of one video are no draws of their own.
    found: dict[tuple[str, float], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for session in data.json(_CONSTANT):
        if session["transport"] == "fbdt" and session["concealment"] == "last-received":
            found[session["scheme"], session["rate_mbps"]][session["video"]].append(session["psnr_db"])
    points: dict[str, list[tuple[float, Cell]]] = defaultdict(list)
    for (scheme, rate), videos in found.items():
        interval = _weftline.mean_ci95([sum(values) / len(values) for values in videos.values()])
        if scheme in ("uniform", "fix", "ows") and interval is not None:
            points[scheme].append((rate, interval[:2]))
    if not points:
        raise Missing(f"{_CONSTANT} of uniform, fix and ows over fbdt")
    lines(right, points, "rate, Mb/s", "PSNR, dB")
    right.set_xscale("log")


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


@figure("fbdt-6f", SOURCE, "§6.3, Fig. 6f", "Gain of OWS over FBDT against FIX over MPTCP", files=[SESSIONS], lab=_FIG6F)
def fig_6f(data: Data, left: Any, right: Any) -> None:
    values = {(row["condition"], "gain"): (float(row["value"]), None) for row in published("fbdt-6f")}
    bars(left, _PLACES, ["gain"], {"published": values}, "dB")
    means = gains(data.json(SESSIONS))
    if not means:
        raise Missing(f"{SESSIONS} of ows over fbdt and fix over linux")
    bars(right, _PLACES, sorted({kind for _, kind in means}), {"sim": means},
         "dB, 95 % over videos and windows")
