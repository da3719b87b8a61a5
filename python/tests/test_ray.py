"""Sweeps on Ray, with a worker that is killed on the way."""

import os
import pathlib
import signal

import pytest

import weftline as wl

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'weftline[ray]'")


def test_a_killed_worker_costs_no_run(sweep: wl.Sweep, tmp_path: pathlib.Path) -> None:
    sweep.run(tmp_path / "threads")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        killed: list[int] = []

        def kill(done: int, total: int) -> None:
            if done != 2:
                return
            from ray.util.state import list_workers

            workers = [w for w in list_workers() if w.worker_type == "WORKER" and w.is_alive]
            killed.append(workers[0].pid)
            os.kill(workers[0].pid, signal.SIGKILL)

        sweep.run(tmp_path / "ray", on=wl.Ray(), progress=kill)
    finally:
        ray.shutdown()
    assert killed
    runs = [tmp_path / name / "runs.jsonl" for name in ("threads", "ray")]
    assert runs[0].read_bytes() == runs[1].read_bytes()
