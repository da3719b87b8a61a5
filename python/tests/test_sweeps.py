"""Sweeps: the same bytes wherever they run, resumed, interrupted, and what they get wrong."""

import concurrent.futures
import multiprocessing
import pathlib
import signal
import subprocess
import sys

import polars
import pytest

import weftline as wl


def lines(directory: pathlib.Path) -> str:
    """The records of a directory."""
    return (directory / "runs.jsonl").read_text()


def test_the_program_and_python_write_and_resume_the_same(
    program: pathlib.Path, sweep: wl.Sweep, links: wl.Scenario, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "two-links").mkdir()
    (tmp_path / "two-links" / "two-links.toml").write_text(links.text)
    (tmp_path / "sweep.toml").write_text(sweep.text)
    sweep.run(tmp_path / "python")
    command = [program, "sim", "sweep", tmp_path / "sweep.toml", "--out"]
    subprocess.run([*command, tmp_path / "program"], check=True, capture_output=True)
    assert lines(tmp_path / "python") == lines(tmp_path / "program")
    # Either goes on with what the other has begun.
    for directory in ("python", "program"):
        runs = tmp_path / directory / "runs.jsonl"
        runs.write_text("".join(runs.read_text().splitlines(keepends=True)[:5]))
    subprocess.run([*command, tmp_path / "python"], check=True, capture_output=True)
    results = sweep.run(tmp_path / "program")
    assert lines(tmp_path / "python") == lines(tmp_path / "program")
    assert len(results) == len(sweep) == 24


def test_processes_write_the_same_bytes(sweep: wl.Sweep, tmp_path: pathlib.Path) -> None:
    sweep.run(tmp_path / "threads", series=True)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        results = sweep.run(tmp_path / "processes", series=True, on=executor)
    assert lines(tmp_path / "threads") == lines(tmp_path / "processes")
    series = [tmp_path / name / "series.csv" for name in ("threads", "processes")]
    assert series[0].read_text() == series[1].read_text()
    table = results.series()
    assert table is not None
    assert polars.DataFrame(table)["run"].n_unique() == 24


INTERRUPTED = """
import sys, weftline as wl
sweep = wl.Sweep(wl.Scenario.parse(open(sys.argv[1]).read()), scheme=["earliest", "min-rtt"],
                 seed=range(1, 4), duration=sys.argv[3])
sweep.run(sys.argv[2], threads=1, progress=lambda done, total: print(done, flush=True))
"""


def test_an_interrupt_keeps_what_is_done(links: wl.Scenario, tmp_path: pathlib.Path) -> None:
    scenario, out = tmp_path / "s.toml", tmp_path / "out"
    scenario.write_text(links.text)
    # A run of a thousand simulated seconds is under way when the signal comes.
    command = [sys.executable, "-c", INTERRUPTED, scenario, out, "1000s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"1\n"
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
        assert process.wait() != 0
    assert b"KeyboardInterrupt" in errors
    kept = wl.Results.load(out)
    assert 1 <= len(kept) < 6 and kept[0]["completed"]


def test_an_exception_of_ones_own_ends_it(sweep: wl.Sweep, tmp_path: pathlib.Path) -> None:
    def fail(done: int, total: int) -> None:
        assert total == 24
        if done == 3:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        sweep.run(tmp_path / "out", progress=fail)
    assert len(wl.Results.load(tmp_path / "out")) == 3
    assert len(sweep.run(tmp_path / "out")) == 24


def test_other_results_are_refused(sweep: wl.Sweep, tmp_path: pathlib.Path) -> None:
    sweep.run(tmp_path)
    other = wl.Sweep("demo", scheme="earliest", duration="1s", warmup="0s")
    with pytest.raises(ValueError, match="is another sweep"):
        other.run(tmp_path)


def test_what_was_swept_is_numbers(links: wl.Scenario, tmp_path: pathlib.Path) -> None:
    swept = {
        "path.wifi.rate": ["10Mbps", "1Gbps"],
        "path.wifi.delay": ["500us", "2ms"],
        "path.wifi.queue": ["64KiB", "1bdp"],
        "path.lte.loss": [0, 0.1],
    }
    sweep = wl.Sweep(links, scheme="earliest", set=swept, duration="200ms", warmup="0s")
    results = sweep.run(tmp_path)
    assert len(results) == 16
    assert set(results["path.wifi.rate"]) == {1e7, 1e9}
    assert set(results["path.wifi.delay"]) == {0.0005, 0.002}
    assert set(results["path.wifi.queue"]) == {"64KiB", "1bdp"}
    assert set(results["path.lte.loss"]) == {0.0, 0.1}


def test_statistics_are_the_reports(sweep: wl.Sweep, tmp_path: pathlib.Path) -> None:
    results = sweep.run(tmp_path)
    by_loss = wl.ci95(results, "goodput_mbps", by=["scheme", "path.wifi.loss"])
    assert wl.ci95(polars.DataFrame(results), "goodput_mbps", by=["scheme", "path.wifi.loss"]) == by_loss
    one = next(row for row in by_loss if row["scheme"] == "earliest" and row["path.wifi.loss"] == 0)
    assert one["n"] == 3 and one["mean"] > 20 and one["half_width"] is not None
    assert "half_width" in str(by_loss)
    assert wl.ci95(results[:1], "goodput_mbps")[0]["half_width"] is None
    for ratio in results.ratios():
        run = results[ratio["run"]]
        same = [one for one in results if (one["seed"], one["case"]) == (run["seed"], run["case"])]
        alone = [one["goodput_mbps"] for one in same if one["scheme"].startswith("single:")]
        assert ratio["to_sum"] == pytest.approx(run["goodput_mbps"] / sum(alone))
        assert ratio["to_best"] == pytest.approx(run["goodput_mbps"] / max(alone))
    assert len(results.ratios()) == 24
    assert results.report(tmp_path / "page.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"scheme": "earliest", "set": {"path.wifi.rate": ["fast"]}}, "^sweep.toml:5: .*is no rate"),
        ({"scheme": "fastest"}, "no scheme 'fastest'"),
        ({"scheme": "earliest", "seed": [1, 1]}, "seed twice"),
        ({"scheme": "earliest", "set": {"path.wlan.rate": ["1Mbps"]}}, "wlan"),
        ({"scheme": "earliest", "colour": "red"}, "colour"),
    ],
)
def test_wrong_sweeps_are_refused(
    links: wl.Scenario, keys: dict[str, object], reason: str
) -> None:
    with pytest.raises(wl.ScenarioError, match=reason):
        wl.Sweep(links, **keys)  # type: ignore[arg-type]


def test_another_version_is_refused(sweep: wl.Sweep) -> None:
    sweep._bundle.version = "0.0.9"
    with pytest.raises(RuntimeError, match=r"from weftline 0\.0\.9, and this is .*install the same"):
        sweep._bundle.open()
