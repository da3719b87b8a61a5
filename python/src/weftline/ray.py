"""Sweeps on a Ray cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _weftline

if TYPE_CHECKING:
    from ._sweep import Bundle, Part

# A task takes about that long: shorter ones cost their start, longer ones lose more with a worker.
_TASK_S = 5.0
_MOST_RUNS = 1000


class Ray:
    """Runs a sweep on Ray: `sweep.run("results", on=wl.Ray())`.

    Starts Ray on this machine, or connects to the cluster that it is part of. The driver alone
    writes, so no file system need be shared. A worker that dies, with its node or without, has its
    part done again, up to `retries` times. Needs `pip install './python[ray]'` on all nodes, in the
    same version.
    """

    def __init__(self, *, retries: int = 5, **init: Any) -> None:
        self.retries, self.init = retries, init

    def map_parts(
        self,
        bundle: Bundle,
        places: Sequence[int],
        series: bool,
        take: Callable[[Part], None],
    ) -> None:
        """See `Sweep.run`."""
        ray = _import()
        if not ray.is_initialized():
            ray.init(**{"log_to_driver": False, "include_dashboard": False, **self.init})
        remote = ray.remote(num_cpus=1, max_retries=self.retries)(_part)
        kept = ray.put(bundle)
        cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
        size, next_place = 1, 0
        waiting: list[Any] = []
        try:
            while next_place < len(places) or waiting:
                # Enough that no worker waits and an autoscaler sees what is to come.
                while next_place < len(places) and len(waiting) < 4 * cpus:
                    part = list(places[next_place : next_place + size])
                    waiting.append(remote.remote(kept, part, series))
                    next_place += len(part)
                done, took = ray.get(waiting.pop(0))
                size = _size(took / max(1, len(done)))
                take(done)
        finally:
            for task in waiting:
                ray.cancel(task)


def _size(run_s: float) -> int:
    """How many runs make a task, where one takes `run_s` seconds."""
    return max(1, min(_MOST_RUNS, int(_TASK_S / max(run_s, 1e-6))))


def _part(bundle: Bundle, places: Sequence[int], series: bool) -> tuple[Part, float]:
    from ._sweep import run_part

    began = time.monotonic()
    part = run_part(bundle, places, series)
    return part, time.monotonic() - began


def _import() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            f"Ray is not installed; pip install './python[ray]' in the sources (weftline {_weftline.__version__})"
        ) from error
    return ray
