"""Sweeps on a Ray cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _weftline

if TYPE_CHECKING:
    from ._sweep import Bundle, Part


# How often it is asked how large the cluster is.
_LOOK_S = 5.0


class Ray:
    """Runs a sweep on Ray: `sweep.run("results", on=wl.Ray())`.

    Starts Ray on this machine, or connects to the cluster that it is part of: on a cluster, submit the
    script to its head node with `ray job submit`. The driver alone writes, so no file system need be
    shared. What is passed besides goes to `ray.init`, such as
    `runtime_env={"pip": ["/shared/weftline-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl"]}`, a wheel at a
    path that all nodes have, which installs the package on them; otherwise they need the same version.

    A worker that dies, with its node or without, has its part done again, up to `retries` times. A part
    that kills its workers each time is halved, until the run that does it is alone; the `error` of its
    record says so. What else is wrong with the cluster, such as a `runtime_env` that cannot be set up, is
    raised. Ray itself repeats tasks that it killed for want of memory for ever, unless
    `RAY_task_oom_retries` in its environment is a number.
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
        from ._sweep import size_of_part

        ray = _import()
        if not ray.is_initialized():
            ray.init(**{"log_to_driver": False, "include_dashboard": False, **self.init})
        remote = ray.remote(num_cpus=1, max_retries=self.retries)(_part)
        # In a list, a worker fetches it only when it wants it.
        kept = [ray.put(bundle)]
        size, next_place = 1, 0
        cpus, asked = 1, -math.inf
        waiting: list[tuple[list[int], Any]] = []

        def submit(some: list[int]) -> tuple[list[int], Any]:
            return some, remote.remote(bundle.key, kept, some, series)

        try:
            while next_place < len(places) or waiting:
                # Enough that no worker waits and an autoscaler sees what is to come; it may add nodes.
                if time.monotonic() > asked + _LOOK_S:
                    cpus, asked = max(1, int(ray.cluster_resources().get("CPU", 1))), time.monotonic()
                while next_place < len(places) and len(waiting) < 4 * cpus:
                    some = list(places[next_place : next_place + size])
                    waiting.append(submit(some))
                    next_place += len(some)
                some, task = waiting.pop(0)
                try:
                    part, took_s = ray.get(task)
                except ray.exceptions.RayTaskError as error:
                    raise error.as_instanceof_cause() from None
                except _died(ray) as error:
                    if len(some) > 1:
                        half = len(some) // 2
                        waiting[:0] = [submit(some[:half]), submit(some[half:])]
                        continue
                    why = str(error).strip().splitlines() or [type(error).__name__]
                    part = [bundle.failed(some[0], f"its workers died: {why[0]}")]
                else:
                    size = size_of_part(part, took_s)
                take(part)
        finally:
            for _, task in waiting:
                ray.cancel(task)


# The bundle that a worker was sent last, by its key.
_fetched: tuple[str, Bundle] | None = None


def _part(
    key: str, kept: list[Any], places: Sequence[int], series: bool
) -> tuple[Part, float]:
    from ._sweep import timed_part

    global _fetched
    if _fetched is None or _fetched[0] != key:
        _fetched = key, _import().get(kept[0])
    return timed_part(_fetched[1], places, series)


def _died(ray: Any) -> tuple[type[Exception], ...]:
    """What says that a worker died over its part, and not that no worker could have done it."""
    errors = ray.exceptions
    return (
        errors.WorkerCrashedError,
        errors.NodeDiedError,
        errors.OutOfMemoryError,
        errors.ObjectLostError,
    )


def _import() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "Ray is not installed; pip install './python[ray]' in the sources "
            f"(weftline {_weftline.__version__})"
        ) from error
    return ray
