"""Multipath transport in a deterministic simulator.

    import weftline as wl

    links = wl.Scenario("two-links", duration="30s", warmup="5s", paths=[
        wl.Path("wifi", rate="476Mbps", delay="2ms", loss=0.001),
        wl.Path("lte", rate="50Mbps", delay="30ms")])
    run = wl.run(links, "earliest", congestion="bbr", seed=7)
    print(run.goodput_mbps, run.paths["wifi"].rtt_ms.p95)

The runs are those of `weftline sim`: the same scenario, scheme, congestion control and seed give the
same record, byte for byte, from either. Wherever a scenario is expected, the name of a built-in one or
the path of a file does too.
"""

from ._weftline import ScenarioError, __version__
from ._names import congestion_controls, scenarios, schemes, sweeps
from ._own import Control, Picker, Scheduler
from ._results import Intervals, Results, ci95, ratios
from ._runs import Run, batch, run
from ._scenario import Path, Scenario, Trace, csv, mahimahi
from ._sweep import Sweep, WorkerError, merge
from .ray import Ray

__all__ = [
    "Control",
    "Intervals",
    "Path",
    "Picker",
    "Ray",
    "Results",
    "Run",
    "Scenario",
    "ScenarioError",
    "Scheduler",
    "Sweep",
    "Trace",
    "WorkerError",
    "__version__",
    "batch",
    "ci95",
    "congestion_controls",
    "csv",
    "mahimahi",
    "merge",
    "ratios",
    "run",
    "scenarios",
    "schemes",
    "sweeps",
]
