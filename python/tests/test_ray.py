"""Sweeps on Ray, with workers that are killed, that have another version, and that want too much memory."""

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import weftline as wl

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install './python[ray]'")


def lines(directory: pathlib.Path) -> bytes:
    """The records of a directory."""
    return (directory / "runs.jsonl").read_bytes()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two workers on this machine."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def kill_a_worker() -> int | None:
    """Kills a process that does tasks, a child of this cluster's raylet, if there is one just now."""
    node = ray.get_runtime_context().get_node_id()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            named = (process / "cmdline").read_bytes().startswith(b"ray::_part")
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            is_ours = node in pathlib.Path(f"/proc/{parent}/cmdline").read_text()
        except OSError:
            continue  # It has ended meanwhile.
        if named and is_ours:
            os.kill(int(process.name), signal.SIGKILL)
            return int(process.name)
    return None


def test_a_killed_worker_costs_no_run(cluster: Any, sweep: wl.Sweep, tmp_path: pathlib.Path) -> None:
    sweep.run(tmp_path / "threads")
    killed = []

    def kill(done: int, total: int) -> None:
        # On a busy machine none may be at work just now: then at the next run, or the one after it.
        if done >= 2 and len(killed) < 2 and (worker := kill_a_worker()) is not None:
            killed.append(worker)

    sweep.run(tmp_path / "ray", on=wl.Ray(), progress=kill)
    assert killed
    assert lines(tmp_path / "threads") == lines(tmp_path / "ray")


def test_a_class_of_the_script_goes_along(
    cluster: Any, links: wl.Scenario, tmp_path: pathlib.Path
) -> None:
    class Last(wl.Picker):
        def pick(self, now, paths):  # type: ignore[no-untyped-def]
            return max(p.index for p in paths if p.has_room)

    class Fails(wl.Picker):
        pass

    sweep = wl.Sweep(links, scheme=[Last, "min-rtt"], seed=[1, 2])
    sweep.run(tmp_path / "threads")
    sweep.run(tmp_path / "ray", on=wl.Ray())
    assert lines(tmp_path / "threads") == lines(tmp_path / "ray")
    with pytest.raises(NotImplementedError):
        wl.Sweep(links, scheme=Fails).run(tmp_path / "fails", on=wl.Ray())


def test_what_has_become_of_the_scenario_does_not_matter(
    cluster: Any, links: wl.Scenario, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "links.toml"
    file.write_text(links.text)
    sweep = wl.Sweep(file, scheme=["earliest", "min-rtt"], seed=range(1, 6))
    other = wl.Scenario.load(file).replace(path__wifi__rate="5Mbps").text

    def change(done: int, total: int) -> None:
        file.write_text(other)

    sweep.run(tmp_path / "ray", on=wl.Ray(), progress=change)
    sweep.run(tmp_path / "threads")
    assert lines(tmp_path / "threads") == lines(tmp_path / "ray")
    # The changed one is another sweep.
    changed = wl.Sweep(file, scheme=["earliest", "min-rtt"], seed=range(1, 6))
    with pytest.raises(ValueError, match="differs from what the runs in"):
        changed.run(tmp_path / "ray", on=wl.Ray())


@pytest.mark.parametrize(("attribute", "value", "reason"), [
    ("version", "0.0.9", "has weftline .*, and this sweep is from 0.0.9; install the same"),
    ("canary", "0123456789abcdef", "its runs are others .digest .*, here 0123456789abcdef"),
])
def test_another_version_is_refused_by_name(
    cluster: Any, sweep: wl.Sweep, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    attribute: str, value: str, reason: str,
) -> None:
    prepared = type(sweep._bundle).prepared

    def lie(bundle: Any) -> Any:
        setattr(prepared(bundle), attribute, value)
        return bundle

    monkeypatch.setattr(type(sweep._bundle), "prepared", lie)
    with pytest.raises(wl.WorkerError, match=f"the worker .* on .* {reason}"):
        sweep.run(tmp_path / "out", on=wl.Ray())
    # Nothing was written, and the right ones go on.
    monkeypatch.undo()
    assert lines(tmp_path / "out") == b""
    again = wl.Sweep.parse("sweep", sweep.text, sweep._bundle.files)
    assert len(again.run(tmp_path / "out", on=wl.Ray())) == 24


def test_the_program_runs_a_sweep_on_ray(
    program: pathlib.Path, sweep: wl.Sweep, links: wl.Scenario, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "two-links").mkdir()
    (tmp_path / "two-links" / "two-links.toml").write_text(links.text)
    (tmp_path / "sweep.toml").write_text(sweep.text)
    # The environment's Python is found as python3.
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [program, "sim", "sweep", tmp_path / "sweep.toml", "--out"]
    done = subprocess.run([*command, tmp_path / "ray", "--on", "ray"], env={**os.environ, "PATH": path},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "24 runs in" in done.stdout
    subprocess.run([*command, tmp_path / "threads"], check=True, capture_output=True)
    assert lines(tmp_path / "threads") == lines(tmp_path / "ray")


# A cluster whose memory is always used up: its workers are killed while they run.
OUT_OF_MEMORY = """
import sys, weftline as wl
links = wl.Scenario("l", duration="400s", paths=[wl.Path("a", rate="400Mbps", delay="2ms")])
sweep = wl.Sweep(links, scheme="single:a", seed=range(1, 4))
on = wl.Ray(retries=0, num_cpus=2, _system_config={"memory_monitor_refresh_ms": 50})
results = sweep.run(sys.argv[1], on=on)
print(*results["error"], sep="\\n")
"""


def test_runs_that_want_too_much_memory_are_results(tmp_path: pathlib.Path) -> None:
    environment = {**os.environ, "RAY_memory_usage_threshold": "0.01", "RAY_task_oom_retries": "0"}
    command = [sys.executable, "-c", OUT_OF_MEMORY, tmp_path / "out"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    errors = done.stdout.splitlines()
    assert len(errors) == 3 and all(error.startswith("its workers died: ") for error in errors), errors
    assert any("memory" in error for error in errors), errors
    # They are made again the next time, where there is room.
    kept = wl.Results.load(tmp_path / "out")
    assert [run["completed"] for run in kept] == [False] * 3
