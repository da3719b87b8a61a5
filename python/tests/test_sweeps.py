"""Sweeps: the same bytes wherever they run, resumed, interrupted, and what they get wrong."""

import concurrent.futures
import math
import multiprocessing
import os
import pathlib
import pickle
import signal
import subprocess
import sys

import polars
import pytest

import weftline as wl


class Frame(dict[str, list[object]]):
    """What a data frame of pandas looks like."""

    @property
    def columns(self) -> list[str]:
        return list(self)


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
    table = polars.DataFrame(results.series)
    assert table["run"].n_unique() == 24
    # A part has its own, numbered as the part is.
    part = polars.DataFrame(results[5:8].series)
    assert part["value"].to_list() == table.filter(polars.col("run").is_between(5, 7))["value"].to_list()
    assert part["run"].unique().to_list() == [0, 1, 2]
    assert len(sweep.run(tmp_path / "none").series) == 0


def test_series_are_those_of_the_records_that_count(links: wl.Scenario, tmp_path: pathlib.Path) -> None:
    sweep = wl.Sweep(links, scheme=["earliest", "single:lte"])
    whole = sweep.run(tmp_path, series=True)
    before = polars.DataFrame(whole.series)
    # The first run was made a second time, and a writer that was killed has not tidied up.
    runs, series = tmp_path / "runs.jsonl", tmp_path / "series.csv"
    runs.write_text(runs.read_text() + runs.read_text().splitlines(keepends=True)[0])
    again = [row.split(",") for row in series.read_text().splitlines() if row.split(",")[1] == "0"]
    with series.open("a") as rows:
        rows.writelines(",".join([row[0], "2", *row[2:4], "7"]) + "\n" for row in again)
    after = polars.DataFrame(wl.Results.load(tmp_path).series)
    assert len(after) == len(before)
    # Of the first run now those of the second time.
    assert set(after.filter(polars.col("run") == 0)["value"]) == {7.0}
    kept = polars.col("run") == 1
    assert after.filter(kept)["value"].to_list() == before.filter(kept)["value"].to_list()


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
    # As pandas has a column in which one run has an error, and the others have none.
    frame = Frame({name: results[name] for name in ("goodput_mbps", "scheme", "completed")})
    frame["error"] = ["it stalled", *[math.nan] * 23]
    frame["emulator.valid"] = [math.nan] * 24
    counted = wl.ci95(frame, "goodput_mbps", by="scheme")
    assert sum(row["n"] for row in counted) == 23
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


def test_traces_are_swept(links: wl.Scenario, tmp_path: pathlib.Path) -> None:
    for folder, rate in (("own", 40), ("slow", 5), ("fast", 30)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lte.csv").write_text(f"time_s,rate_mbps\n0,{rate}\n1,{rate}\n")
    slow, fast = (wl.csv(tmp_path / folder / "lte.csv") for folder in ("slow", "fast"))
    # Of one name, the scenario's own among them, and of a built-in scenario.
    own = links.replace(path__lte__trace=wl.csv(tmp_path / "own" / "lte.csv"))
    sweep = wl.Sweep(own, scheme="single:lte", set={"path.lte.trace": [slow, fast]})
    results = sweep.run(tmp_path / "out")
    rates = results["goodput_mbps"]
    assert rates[0] < 5 < 20 < rates[1] < 30
    again = wl.Sweep.load(sweep.save(tmp_path / "saved"))
    assert again.run(tmp_path / "again")["goodput_mbps"] == rates
    table = {"path.dsl": [{"rate": "20Mbps"}, {"trace": fast}]}
    rates = wl.Sweep("bond", scheme="single:dsl", duration="2s", warmup="0s", set=table).run(tmp_path / "bond")["goodput_mbps"]
    assert rates[0] < 20 < rates[1]
    drawn = wl.Sweep(links, scheme="single:lte", random={"runs": 2, "set": {"path.lte": {"trace": fast}}})
    assert min(drawn.run(tmp_path / "drawn")["goodput_mbps"]) > 20


def test_what_is_refused_after_the_runs_says_why(links: wl.Scenario, tmp_path: pathlib.Path) -> None:
    sweep = wl.Sweep(links, scheme=["single:lte"], set={"path.lte.rate": ["20Mbps", "0bps"]})
    with pytest.raises(wl.ScenarioError) as refused:
        sweep.run(tmp_path)
    error = refused.value
    assert (error.file, error.line) == (None, None) and error.reason == str(error)


def test_another_version_is_refused(sweep: wl.Sweep, tmp_path: pathlib.Path) -> None:
    bundle = sweep._bundle.prepared()
    bundle.version = "0.0.9"
    with pytest.raises(wl.WorkerError, match=r"has weftline .*, and this sweep is from 0\.0\.9; install the same"):
        bundle.open()
    bundle.version, bundle.canary = wl.__version__, "0123456789abcdef"
    with pytest.raises(wl.WorkerError, match="its runs are others"):
        bundle.open()


def kill_itself() -> None:
    """What a worker may do."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_pool_whose_process_dies_keeps_what_is_done(sweep: wl.Sweep, tmp_path: pathlib.Path) -> None:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:

        def kill(done: int, total: int) -> None:
            if done == 3:
                executor.submit(kill_itself)

        with pytest.raises(concurrent.futures.BrokenExecutor):
            while True:
                sweep.run(tmp_path / "pool", on=executor, progress=kill)
                executor.submit(kill_itself).result()
    kept = wl.Results.load(tmp_path / "pool")
    assert len(kept) >= 3
    sweep.run(tmp_path / "pool")
    sweep.run(tmp_path / "threads")
    assert lines(tmp_path / "pool") == lines(tmp_path / "threads")


def test_parts_that_the_program_made_are_merged(
    program: pathlib.Path, sweep: wl.Sweep, links: wl.Scenario, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "two-links").mkdir()
    (tmp_path / "two-links" / "two-links.toml").write_text(links.text)
    (tmp_path / "sweep.toml").write_text(sweep.text)
    command = [program, "sim", "sweep", tmp_path / "sweep.toml", "--out", tmp_path / "parts", "--part"]
    for part in ("1/3", "3/3"):
        subprocess.run([*command, part], check=True, capture_output=True)
    with pytest.raises(RuntimeError, match="8 of 24 runs are merged; part 2/3 of .* has not made all"):
        wl.merge(tmp_path / "parts")
    # What is merged is a prefix, and goes on here.
    sweep.run(tmp_path / "threads")
    assert lines(tmp_path / "threads").startswith(lines(tmp_path / "parts"))
    subprocess.run([*command, "2/3"], check=True, capture_output=True)
    assert len(wl.merge(tmp_path / "parts")) == 24
    assert lines(tmp_path / "threads") == lines(tmp_path / "parts")


def test_files_may_be_beside_the_folder(links: wl.Scenario, tmp_path: pathlib.Path) -> None:
    for folder in ("sweeps", "scenarios", "traces"):
        (tmp_path / folder).mkdir()
    (tmp_path / "traces" / "lte.csv").write_text("time_s,rate_mbps\n0,10\n1,10\n")
    trace = "{ file = '../traces/lte.csv', format = 'csv' }"
    text = f"name = 'far'\nduration = '1s'\n[[path]]\nname = 'a'\ndelay = '1ms'\ntrace = {trace}\n"
    (tmp_path / "scenarios" / "far.toml").write_text(text)
    file = tmp_path / "sweeps" / "far.toml"
    file.write_text("scenario = '../scenarios/far.toml'\nscheme = 'single:a'\nseed = [1, 2]\n")
    sweep = wl.Sweep.load(file)
    first = sweep.run(tmp_path / "threads")
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        sweep.run(tmp_path / "pool", on=executor)
    assert lines(tmp_path / "threads") == lines(tmp_path / "pool")
    assert first["goodput_mbps"][0] < 10
    assert len(pickle.loads(pickle.dumps(sweep))) == 2


def test_from_the_command_line(links: wl.Scenario, tmp_path: pathlib.Path) -> None:
    (tmp_path / "links.toml").write_text(links.text)
    (tmp_path / "mine.toml").write_text("scenario = 'links.toml'\nscheme = ['earliest', 'min-rtt']\n")
    command = [sys.executable, "-m", "weftline", "sweep"]
    done = subprocess.run([*command, "mine.toml", "--on", "processes", "--jobs", "1", "--series"],
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("results/mine: 2 runs in "), done.stderr
    assert len(wl.Results.load(tmp_path / "results/mine").series) > 0
    wrong = subprocess.run([*command, "none.toml"], cwd=tmp_path, capture_output=True, text=True)
    assert wrong.returncode == 2 and wrong.stderr.startswith("weftline: cannot read none.toml"), wrong.stderr


def test_where_a_sweep_cannot_run_is_named(tmp_path: pathlib.Path) -> None:
    links = wl.Scenario("s", paths=[wl.Path("a", rate="5Mbps")], duration="1s")
    sweep = wl.Sweep(links, scheme="single:a")
    for on in ("ray", 3, wl.Ray):
        with pytest.raises(TypeError, match=r"on is wl.Ray\(\), or an executor"):
            sweep.run(tmp_path / "on", on=on)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="progress is True, False, or a function"):
        sweep.run(tmp_path / "on", progress=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="give one of them"):
        sweep.run(tmp_path / "on", threads=1, on=wl.Ray())
    assert not (tmp_path / "on").exists()
    with pytest.raises(TypeError, match="a path is a wl.Path"):
        wl.Scenario("s", paths=["a"])  # type: ignore[list-item]
    (tmp_path / "latin.csv").write_bytes("time_s,rate_mbps\n0,1 \xe9\n".encode("latin-1"))
    with pytest.raises(ValueError, match="latin.csv is no text in UTF-8"):
        wl.csv(tmp_path / "latin.csv")
    results = sweep.run(tmp_path / "one")
    with pytest.raises(ValueError, match="another directory|a directory of their own") as raised:
        wl.Sweep(links, scheme="single:a", seed=[1, 2]).run(tmp_path / "one")
    assert "--out" not in str(raised.value) and len(results.series.to_polars()) == 0


def test_each_path_alone_is_of_the_scenarios_that_have_it() -> None:
    other = wl.Scenario("other", paths=[wl.Path("a", rate="5Mbps"), wl.Path("wifi", rate="5Mbps")], duration="1s")
    sweep = wl.Sweep(["demo", other], scheme=["earliest", "single:*"], duration="1s", warmup="0s")
    assert len(sweep) == 6
