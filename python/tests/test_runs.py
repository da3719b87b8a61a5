"""Runs: the program's bytes, and what Python makes of them."""

import json
import pathlib
import pickle
import subprocess
import sys

import polars
import pyarrow
import pytest

import weftline as wl


@pytest.mark.parametrize(
    ("scenario", "scheme", "congestion"),
    [
        ("demo", "earliest", "bbr"),
        ("demo", "linux-mptcp", "cubic"),
        ("cotag-fig5-d0", "cotag", "cubic"),
    ],
)
def test_a_record_is_the_programs(
    program: pathlib.Path, scenario: str, scheme: str, congestion: str
) -> None:
    short = wl.Scenario.load(scenario).replace(duration="500ms", warmup="0s")
    mine = wl.run(short, scheme, congestion=congestion, seed=3)
    command = [program, "sim", "run", scenario, "--scheme", scheme, "--congestion", congestion]
    options = ["--duration", "500ms", "--warmup", "0s", "--seed", "3", "--json"]
    theirs = subprocess.run([*command, *options], check=True, capture_output=True, text=True)
    assert theirs.stdout == mine.json + "\n"


def test_a_run_has_its_record_as_attributes(links: wl.Scenario) -> None:
    run = wl.run(links, "earliest", seed=7, series=True)
    assert run.goodput_mbps == json.loads(run.json)["goodput_mbps"] > 20
    assert run.paths["wifi"].rtt_ms.p95 > 4
    assert run.in_order_delay_ms.p99 >= run.in_order_delay_ms.p50
    assert run.completed and run.error is None and run.messages is None
    assert run.digest is not None and len(run.digest) == 16


def test_series_are_a_row_for_each_step(links: wl.Scenario) -> None:
    series = polars.DataFrame(wl.run(links, "earliest", series=True).series)
    assert series["time_s"].to_list() == [step / 10 for step in range(1, 11)]
    assert series["wifi.capacity_mbps"].unique().to_list() == [50.0]
    assert len(wl.run(links, "earliest").series) == 0


def test_a_key_that_no_record_has_is_an_error(links: wl.Scenario) -> None:
    run = wl.run(links, "earliest")
    assert run.messages is None and run.video is None and run.paths["wifi"].starved_s is not None
    with pytest.raises(AttributeError, match="a record has no 'godput_mbps'; is it 'goodput_mbps'?"):
        run.godput_mbps
    with pytest.raises(AttributeError, match="no 'paths.rtt'; is it 'rtt_ms'?"):
        run.paths["wifi"].rtt
    with pytest.raises(AttributeError, match="no 'in_order_delay_ms.p98'"):
        run.in_order_delay_ms.p98
    assert not hasattr(run, "speed")


def test_seeds_are_all_of_64_bits(links: wl.Scenario) -> None:
    seeds = [1, 2**63, 2**64 - 1]
    results = wl.batch({"scenario": links, "scheme": "min-rtt", "seed": seed} for seed in seeds)
    assert results["seed"] == seeds == polars.DataFrame(results)["seed"].to_list()
    assert wl.run(links, "min-rtt", seed=seeds[1]).seed == seeds[1]
    for seed in (-1, 2**64):
        with pytest.raises(ValueError, match="a seed is a number from 0 to 2.64 - 1, not "):
            wl.run(links, "min-rtt", seed=seed)
    with pytest.raises(wl.ScenarioError):
        wl.Sweep(links, scheme="min-rtt", seed=2**63)


def test_a_batch_may_keep_series(links: wl.Scenario) -> None:
    runs = [{"scenario": links, "scheme": s} for s in ("earliest", "single:wifi")]
    series = polars.DataFrame(wl.batch(runs, series=True).series)
    assert series["run"].unique().to_list() == [0, 1]
    assert len(wl.batch(runs).series) == 0
    with pytest.raises(ValueError, match="a run wants a scheme"):
        wl.batch([{"scenario": links}])


def test_series_that_stay_behind_are_missed(links: wl.Scenario) -> None:
    batch = wl.batch([{"scenario": links, "scheme": "earliest"}], series=True)
    assert len(batch.series) > 0
    sent = pickle.loads(pickle.dumps(batch))
    assert sent["goodput_mbps"] == batch["goodput_mbps"]
    for results in (sent, sent[:1], pickle.loads(pickle.dumps(sent))):
        with pytest.raises(ValueError, match="stayed in the process that made the runs"):
            _ = results.series


def test_groups_without_a_name_are_one() -> None:
    class Frame:
        columns = ["rate", "value"]

        def __getitem__(self, name: str) -> list[float]:
            return {"rate": [float("nan"), float("nan"), 1.0], "value": [1.0, 3.0, 5.0]}[name]

    groups = wl.ci95(Frame(), "value", "rate")
    assert [(group["rate"], group["mean"], group["n"]) for group in groups] == [(None, 2.0, 2), (1.0, 5.0, 1)]


def test_a_batch_keeps_its_order(links: wl.Scenario) -> None:
    wanted = [("min-rtt", 2), ("earliest", 1), ("single:lte", 1)]
    results = wl.batch({"scenario": links, "scheme": s, "seed": n} for s, n in wanted)
    assert list(zip(results["scheme"], results["seed"])) == wanted
    assert results[1]["digest"] == wl.run(links, "earliest").digest
    with pytest.raises(ValueError, match="a run has no speed"):
        wl.batch([{"scenario": links, "scheme": "earliest", "speed": 1}])


def test_results_are_a_table_for_every_frame(links: wl.Scenario) -> None:
    results = wl.batch({"scenario": links, "scheme": s} for s in ("earliest", "single:wifi"))
    arrow, frame = pyarrow.table(results), polars.DataFrame(results)
    assert arrow.column_names == frame.columns == results.columns
    for name in results.columns:
        assert arrow[name].to_pylist() == frame[name].to_list() == results[name]
    assert results["paths.lte.bytes_sent"][1] in (None, 0)
    with pytest.raises(KeyError, match="no column 'goodput'; there are: world"):
        results["goodput"]


@pytest.mark.parametrize(
    ("scheme", "congestion", "reason"),
    [
        ("fastest", "cubic", "no scheme 'fastest'; known: .*earliest"),
        ("single:wlan", "cubic", "wlan"),
        ("earliest", "vegas", "vegas.*known: .*cubic"),
    ],
)
def test_wrong_names_list_the_known(
    links: wl.Scenario, scheme: str, congestion: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        wl.run(links, scheme, congestion=congestion)
    with pytest.raises(ValueError, match=reason):
        wl.batch([{"scenario": links, "scheme": scheme, "congestion": congestion}])


def test_importing_it_imports_nothing_else() -> None:
    text = "import sys, weftline; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    assert not {"numpy", "pandas", "polars", "pyarrow", "ray"} & set(modules.stdout.split())


def test_columns_without_values_are_columns() -> None:
    links = wl.Scenario("columns", paths=[wl.Path("a", rate="5Mbps")], duration="1s")
    results = wl.batch([{"scenario": links, "scheme": "single:a"}])
    assert results["error"] == [None] and results["completion_s"] == [None]
    assert list(wl.ci95(results, "completion_s", by="scheme")) == []
    mixed = wl.batch([{"scenario": links, "scheme": "single:a"}, {"scenario": "mptcp-a1", "scheme": "single:wifi"}])
    # What has parts in one of them is no column of its own.
    assert "video" not in mixed.columns and mixed["video.buffer_underflows"][0] is None


def test_runs_of_a_batch_can_be_told_apart() -> None:
    links = wl.Scenario("s", paths=[wl.Path("a", rate="5Mbps")], duration="1s")
    other = links.replace(path__a__rate="9Mbps")
    with pytest.raises(ValueError, match="two different scenarios have the name 's'.*replace"):
        wl.batch([{"scenario": one, "scheme": "single:a"} for one in (links, other)])
    results = wl.batch([{"scenario": one, "scheme": "single:a"} for one in (links, other.replace(name="t"))])
    assert len(results) == 2
    with pytest.raises(TypeError, match="a seed is a whole number, not True"):
        wl.run(links, "single:a", seed=True)


def test_results_of_more_seeds_are_added() -> None:
    links = wl.Scenario("s", paths=[wl.Path("a", rate="5Mbps", loss=0.01)], duration="1s")
    few, more = (wl.batch({"scenario": links, "scheme": "single:a", "seed": n} for n in seeds) for seeds in ((1, 2), (3, 4)))
    assert [row["n"] for row in wl.ci95(few + more, "goodput_mbps", by="scheme")] == [4]
    with pytest.raises(ValueError, match="seed 1 is in both, and counts once"):
        few + few


def test_series_of_paths_are_what_records_count() -> None:
    paths = [wl.Path("a", rate="40Mbps", delay="10ms"), wl.Path("b", rate="25Mbps", delay="30ms")]
    links = wl.Scenario("s", paths=paths, duration="4s", warmup="1s")
    for scheme in ("earliest", "single:a", "linux-mptcp"):
        run = wl.run(links, scheme, series=True)
        times = run.series.column("time_s")
        for name, path in run.paths.items():
            column = run.series.column(f"{name}.goodput_mbps")
            values = [value for time, value in zip(times, column) if time > 1.05]
            assert sum(values) / len(values) == pytest.approx(path["goodput_mbps"] or 0.0, rel=1e-3), (scheme, name)


def test_what_is_not_always_needed_is_not_imported() -> None:
    # Each of these takes milliseconds, and a cluster's workers import the package again and again.
    late = ["concurrent.futures", "dataclasses", "difflib", "hashlib", "inspect", "platform", "secrets", "tomllib"]
    code = f"import sys; before = set(sys.modules); import weftline; print(*sorted((set(sys.modules) - before) & set({late!r})))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""
