"""The gallery: drawn with results and without, and the verdicts behind its table."""

import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

import weftline as wl

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install './python[plot]'")

from weftline import figures  # noqa: E402
from weftline.figures import claims, counts, verdict  # noqa: E402
from weftline.figures._data import cdf, published  # noqa: E402
from weftline.figures._quantiles import poisson_ends, student_t  # noqa: E402
from weftline.figures.claims.fbdt import effect  # noqa: E402


def test_every_figure_is_drawn_without_results(tmp_path: pathlib.Path) -> None:
    drawn = figures.draw_all(tmp_path, tmp_path / "out")
    assert len(drawn) == len(figures.FIGURES) > 45
    for one in drawn:
        assert one.file.read_text().startswith("<?xml")
        # Only the loss patterns need no runs.
        assert bool(one.missing) == (one.figure.name != "slides-loss"), one.figure.name
        if one.missing:
            assert one.missing.split()[0] in one.file.read_text(), one.figure.name


def test_what_a_figure_needs_is_run_and_drawn(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "weftline.figures", tmp_path, "--run", "quick", "--only", "ours-gap"]
    page, out = tmp_path / "gallery.md", tmp_path / "gallery"
    command += ["--page", page, "--out", out, "--claims", tmp_path / "claims.md"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == f"{out}/ours-gap.svg\n"
    first = (out / "ours-gap.svg").read_bytes()
    text = page.read_text()
    assert "![The longest time without data where WiGig goes to zero](gallery/ours-gap.svg)" in text
    assert "`blackout`: 15 runs (sim)." in text and "1 of 1 figures" in text
    assert "| FBDT | 0 | 0 | 0 |" in (tmp_path / "claims.md").read_text()
    # Drawn again it is the same, and nothing runs again.
    again = subprocess.run(command, check=True, capture_output=True, text=True)
    assert (out / "ours-gap.svg").read_bytes() == first and "blackout: 15 runs" in again.stderr


def test_the_sweeps_of_all_figures_can_be_made() -> None:
    needs = {need.name: need for one in figures.FIGURES.values() for need in one.needs}
    for need in needs.values():
        quick, full, lab = need.make("quick"), need.make("full"), need.make("lab")
        # What is of data that are not here is not run.
        assert need.name == "fbdt-6c-logs" or quick is not None and full is not None and len(quick) < len(full)
        assert need.name == "fbdt-6c-logs" or lab is not None and len(lab) <= len(full or [])
    # Every claim is of a sweep that a figure shows, or of the sessions of 360° video.
    assert {claim.sweep for claim in claims.ALL} <= {*needs, "fig6f"}


def test_parts_of_cotag_are_named_by_what_they_set(tmp_path: pathlib.Path) -> None:
    figures.run_all(tmp_path, ["cotag-ablation"], "quick", lambda line: None)
    [drawn] = figures.draw_all(tmp_path, tmp_path / "out", ["cotag-ablation"])
    text = drawn.file.read_text()
    assert not drawn.missing and "recoding" in text and "cut_through" in text


def test_logged_rates_are_replayed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay = next(need for need in figures.FIGURES["fbdt-6c-logs"].needs)
    monkeypatch.setenv("WEFTLINE_DATA", str(tmp_path))
    said: list[str] = []
    figures.run_all(tmp_path / "runs", ["fbdt-6c-logs"], "quick", said.append)
    assert said == ["fbdt-6c-logs: left out; WEFTLINE_DATA names no folder with its data"]
    (tmp_path / "fbdt-logs").mkdir()
    for log, mbps in (("LoS_WIFI", 40), ("LoS_WIGI", 60), ("nLoS_WIGI", 30), ("moving_WIGI", 20)):
        rows = "".join(f"t,a,1,b,2,3,{s}.0-{s + 1}.0,9,{mbps}000000\n" for s in range(22))
        (tmp_path / "fbdt-logs" / f"iperf_{log}.csv").write_text("Time, …, Throughput\n" + rows)
    sweep = replay.make("quick")
    assert sweep is not None and len(sweep) == 15
    results = sweep.run(tmp_path / "runs/sim/fbdt-6c-logs")
    goodput = {(run["scenario"], run["scheme"]): run["goodput_mbps"] for run in results}
    assert goodput["fbdt-6c-logs-los", "single:wigig"] == pytest.approx(60, rel=0.01)
    assert goodput["fbdt-6c-logs-nlos", "fbdt"] == pytest.approx(70, rel=0.02)
    [drawn] = figures.draw_all(tmp_path / "runs", tmp_path / "out", ["fbdt-6c-logs"])
    assert not drawn.missing


def test_sweeps_of_figures_are_files_for_the_program(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "weftline.figures", tmp_path, "--run", "quick", "--only", "fbdt-3b,fbdt-6c"]
    done = subprocess.run([*command, "--sweeps", tmp_path], check=True, capture_output=True, text=True)
    files = done.stdout.split()
    assert files == [f"{tmp_path}/{name}.toml" for name in ("fbdt-3b", "fbdt-3b-delay", "fbdt-6c")]
    saved = wl.Sweep.load(files[0])
    assert len(saved) == 24 and saved.name == "fbdt-3b"


def _session(video: str, seed: int, viewer: str, scheme: str, on: str, psnr: float) -> dict[str, object]:
    return {"schema": 1, "video": video, "condition": "fbdt-6c-los", "transport": on, "scheme": scheme,
            "concealment": "grey", "viewer": viewer, "seed": seed, "rate_scale": 1.0, "rate_mbps": 9.0, "gops": 8,
            "psnr_db": psnr, "mean_psnr_db": psnr, "late_tiles": 0.0, "dropped_tiles": 0.0, "sent_bytes": 1,
            "carried_bytes": 1, "version": "test"}


def test_viewers_of_fig_6f_are_no_draws_of_their_own(tmp_path: pathlib.Path) -> None:
    from weftline.figures.fbdt import gains

    sessions = []
    for video, gain in (("plaza", 1.0), ("reef", 3.0)):
        for seed in (1, 2):
            for viewer in (f"viewer-{n}" for n in range(12)):
                sessions += [_session(video, seed, viewer, "fix", "linux", 20.0),
                             _session(video, seed, viewer, "ows-order", "fbdt", 20.0 + gain),
                             _session(video, seed, viewer, "ows-paper", "fbdt", 19.0 + gain),
                             _session(video, seed, viewer, "ows", "fbdt", 25.0 + gain)]
    # A window that kernel MPTCP has not.
    sessions += [_session("plaza", 3, "viewer-1", scheme, "fbdt", 90.0) for scheme in ("ows-order", "ows")]
    found = gains(sessions)
    assert set(found) == {("los", f"{kind}, grey") for kind in ("paper's pairing", "as printed", "ours")}
    mean, half_width = found["los", "paper's pairing, grey"]
    # Two videos: Student's t of one degree of freedom, and a deviation of their mean of 1.
    assert mean == pytest.approx(2.0) and half_width == pytest.approx(12.706, rel=1e-3)
    assert found["los", "as printed, grey"][0] == pytest.approx(1.0)
    (tmp_path / "fig6f/of-together").mkdir(parents=True)
    (tmp_path / "fig6f/of-together/vr.jsonl").write_text("".join(json.dumps(one) + "\n" for one in sessions))
    [drawn] = figures.draw_all(tmp_path, tmp_path / "out", ["fbdt-6f"])
    assert not drawn.missing and "as printed" in drawn.file.read_text()
    # And the claim on it: 2 ± 12.7 dB are neither above 7.5 nor not.
    [claim] = [one for one in claims.FBDT if one.name == "6f.1"]
    assert claims.judge(claim, sessions).figure == "gain in dB, los: 2 ± 13, limit 7.5"
    assert claims.judge(claim, sessions).holds is None


def test_windows_of_fig_6f_are_those_that_both_logs_have(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = pathlib.Path(__file__).parents[2] / "scripts" / "fig6f"
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader("fig6f", str(script))
    spec = importlib.util.spec_from_loader("fig6f", loader)
    assert spec is not None
    fig6f = importlib.util.module_from_spec(spec)
    loader.exec_module(fig6f)
    logs = tmp_path / "fbdt-logs"
    logs.mkdir()
    # Two windows of 48 s that overlap by 20, and a third of FBDT's alone.
    for theirs in fig6f.CONDITIONS:
        (logs / f"iperf_{theirs}.csv").write_text("x,Throughput\n" + "x,1000000\n" * 77 + "x,9\n")
        (logs / f"fbdt_{theirs}.csv").write_text("all,wifi,wigig\n" + "30,40,60\n" * 105)
    monkeypatch.setattr(fig6f, "DATA", tmp_path)
    together, shares = (file.read_text().splitlines()[1:] for file in fig6f.logs(tmp_path))
    for rows in (together, shares):
        runs = {tuple(row.split(",")[:3]) for row in rows}
        wanted = {(place, on, str(window)) for place in fig6f.CONDITIONS.values() for on in ("linux", "fbdt") for window in (1, 2)}
        assert runs == wanted and len(rows) == len(wanted) * 48
    assert "LoS,fbdt,2,12.0,18.0" in shares


def _played(world: str, seed: int, discards: int, scheme: str = "min-rtt", **counts: int | None) -> dict[str, object]:
    run: dict[str, object] = {
        "schema": 1, "world": world, "scenario": "mptcp-a1", "scheme": scheme, "congestion": "bbr", "workload": "vlc",
        "seed": seed, "case": {}, "completed": True, "error": None, "duration_s": 200.0, "version": "test",
        "paths": [
            {"name": name, "bytes_sent": 9, "lost": 0, "queue_drops": 0} for name in ("wifi", "lte")],
        "video": {"picture_discards": discards, "buffer_underflows": 0, "underflow_s": 0.0, **counts}}
    return run


_CONTROL: dict[str, int | None] = {"decoder_drops": 500, "control_discards": 2, "control_decoder_drops": 490}


def test_discards_are_those_of_the_links_in_python_as_in_the_program() -> None:
    kept: list[dict[str, int | None]] = [
        {}, _CONTROL, {"control_discards": 2}, {**_CONTROL, "decoder_drops": None}, {"decoder_drops": 7},
        {**_CONTROL, "control_decoder_drops": None}, {"pictures_missed": 5}]
    wanted = {"sim": [60.0, 68.0, 58.0, None, 60.0, None, 65.0], "lab": [None, 68.0, 58.0, None, None, None, None]}
    for world, values in wanted.items():
        for one, value in zip(kept, values):
            run = {**_played(world, 1, 60, **{key: n for key, n in one.items() if n is not None}), "paths": []}
            assert counts.link_discards(run) == value, (world, one)
            assert wl._weftline.link_discards(json.dumps(run)) == value, (world, one)
    assert counts.link_discards({"world": "lab"}) is None


_SCHEDULERS = ("min-rtt", "lpc", "let", "gr-sty", "tp-sty", "tr-sty")


def test_two_seeds_of_a_player_say_nothing_and_what_the_machine_costs_is_no_claim() -> None:
    claim = next(one for one in claims.SLIDES if one.name == "B1.2")

    def played(world: str, seeds: tuple[int, ...], discards: int, schedulers: tuple[str, ...] = _SCHEDULERS,
               **control: int | None) -> list[dict[str, object]]:
        return [{**_played(world, seed, discards, scheme, **control), "scenario": "mptcp-b1"}
                for seed in seeds for scheme in schedulers]

    four = (1, 2, 3, 4)
    # 60 would be too many; 10 of the decoder's are the links', and 2 of the player's are not.
    assert claims.judge(claim, played("lab", four, 30, **_CONTROL)).holds is True
    # No underflow in three runs does not show that there is less than one in the mean.
    assert claims.judge(claim, played("lab", (1, 2, 3), 30, **_CONTROL)).holds is None
    assert claims.judge(claim, played("lab", (1, 2, 2), 30, **_CONTROL)).holds is None
    # A scheduler of which there are no runs leaves it open, whatever the others do.
    assert claims.judge(claim, played("lab", four, 30, _SCHEDULERS[:5], **_CONTROL)).holds is None
    assert claims.judge(claim, played("lab", four, 60, **_CONTROL)).holds is False
    # Raw counts of before, without a control run, are no figure at all.
    raw = claims.judge(claim, played("lab", four, 600))
    assert raw.holds is None and "fewer than 3 seeds" in raw.figure
    assert claims.judge(claim, played("sim", four, 30)).holds is True


def test_the_script_of_claims_says_where_it_knows_nothing(tmp_path: pathlib.Path) -> None:
    script = pathlib.Path(__file__).parents[2] / "scripts" / "claims"
    controls = ["bbr", "cubic", "compound", "lia", "olia", "balia"]

    def said(seeds: list[int], discards: int) -> str:
        runs = [{**_played("lab", seed, discards, **_CONTROL), "scenario": f"mptcp-{place}", "congestion": control, "scheme": scheme}
                for seed in seeds for place in ("a1", "a2", "b1", "b2") for control in controls for scheme in ("min-rtt", "tp-sty")]
        (tmp_path / "runs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))
        done = subprocess.run([sys.executable, script, tmp_path], check=True, capture_output=True, text=True)
        return next(line for line in done.stdout.splitlines() if "all good, LIA too" in line)

    assert said([1, 2, 3], 30).endswith("| 1 of 1 |")
    assert said([1, 2, 3], 60).endswith("| 0 of 1 |")
    assert said([1, 2], 30).endswith("| 0 of 1, 1 undecided |")


def test_an_interval_decides() -> None:
    assert verdict.below("x", [1.0, 1.1, 0.9], 2).judge().holds is True
    assert verdict.below("x", [3.0, 3.1, 2.9], 2).judge().holds is False
    assert verdict.below("x", [1.0, 3.0, 2.0], 2).judge().holds is None
    assert verdict.below("x", [1.0], 2).judge().verdict == "undecided"
    yes, no, unclear = (
        verdict.below("x", values, 2) for values in ([1.0, 1.1, 0.9], [3.0, 3.1, 2.9], [1.0, 3.0, 2.0]))
    assert verdict.every([yes, unclear, no]).judge().holds is False
    assert verdict.every([yes, unclear]).judge().holds is None and verdict.every([yes, yes]).judge().holds is True
    assert verdict.some([no, unclear]).judge().holds is None and verdict.some([no, yes]).judge().holds is True
    assert verdict.every([]).judge().holds is None
    assert verdict.every([yes, verdict.every([yes, yes])]).judge().words.endswith("(and 2 more)")


def test_equal_is_not_more_and_what_never_varies_says_so() -> None:
    same = verdict.more("gap", [0.0, 0.0, 0.0], 0).judge()
    assert same.holds is False and "the same in 3 runs" in same.figure
    # Of counts two equal gaps show nothing, and a mean of equal values is each of them.
    assert verdict.more("gap", [1.0, 1.0], 0, counts=True).judge().holds is None
    assert verdict.more("gap", [9.0] * 10, 0, counts=True).judge().holds is True
    assert verdict.above("share", [0.1] * 10, 0.1).judge().holds is True
    assert verdict.below("net discards", [-1.0] * 4, 54, counts=True).judge().holds is True
    assert verdict.more("gap", [0.1, 0.2, 0.15], 0).judge().holds is True
    assert verdict.above("ratio", [1.0, 1.0], 1).judge().holds is True
    # No event in three runs: up to 3.69 ÷ 3 in the mean. In ten: 0.37.
    assert verdict.below("stops", [0.0] * 3, 1, counts=True).judge().holds is None
    assert verdict.below("stops", [0.0] * 10, 1, counts=True).judge().holds is True
    assert "0 to 0.37" in verdict.below("stops", [0.0] * 10, 1, counts=True).judge().figure


def test_one_part_of_many_that_misses_by_chance_makes_no_claim_fail() -> None:
    # t = 8.2 of two degrees of freedom: 1.5 %, but of thirty parts one in three would have such a one.
    missing = verdict.below("x", [1.0168, 1.0232, 1.0104], 1.0)
    assert missing.judge().holds is False
    fine = [verdict.below("x", [0.5, 0.6, 0.55], 1.0)] * 29
    assert verdict.every([*fine, missing]).judge().holds is None
    assert verdict.every([*fine, verdict.below("x", [9.0, 9.1, 9.05], 1.0)]).judge().holds is False
    # Nor does it make one hold that says that some part is so.
    assert verdict.some([verdict.negation(one) for one in (*fine, missing)]).judge().holds is None


def test_one_seed_of_which_a_scheme_does_nothing_decides_no_ratio_alone() -> None:
    found = verdict.above("a ÷ b", verdict.Ratios([1.03, 1.05, 50.0, 1.04, 1.03]), 1.3).judge()
    assert found.holds is None and found.figure.startswith("a ÷ b: 2.25 (0.262 to 19.4), n = 5")
    # Twice as much and half as much cancel.
    assert verdict.below("a ÷ b", verdict.Ratios([2.0, 0.5] * 9), 1.1).judge().figure.startswith("a ÷ b: 1 (")
    # A run that carried nothing has no ratio, and is not left out.
    stalled = verdict.ratios([(n, 1100.0 + n) for n in range(3)], [(0, 0.0), (1, 1050.0), (2, 1020.0)])
    found = verdict.above("a ÷ b", stalled, 1).judge()
    assert found.holds is None and "1 of 3 pairs have no ratio" in found.figure
    found = verdict.below("b ÷ a", verdict.Ratios([0.0, 0.1, 0.05]), 1).judge()
    assert found.holds is None and "1 of 3 pairs have no ratio" in found.figure
    # Two seeds that differ by much, at a level of many parts: wide, and no error.
    assert verdict.every([verdict.below("x", verdict.Ratios([1.0, 100.0]), 0.5)] * 25).judge().holds is None


def test_quantiles_are_those_of_the_tables() -> None:
    for freedom, quantile in ((1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042)):
        assert student_t(freedom, 0.05) == pytest.approx(quantile, abs=6e-4)
        # The program's own interval.
        mean, half_width, _ = wl._weftline.mean_ci95([0.0, 2.0] + [1.0] * (freedom - 1)) or (0, None, 0)
        count = freedom + 1
        assert half_width == pytest.approx(quantile * (2 / freedom / count) ** 0.5, rel=1e-3) and mean == 1
    assert student_t(9, 0.10) == pytest.approx(1.833, abs=6e-4)
    assert poisson_ends(0, 0.05) == (0, pytest.approx(3.689, abs=1e-3))
    assert poisson_ends(10, 0.05) == (pytest.approx(4.795, abs=1e-3), pytest.approx(18.39, abs=1e-2))
    low, high = poisson_ends(900, 0.05)
    assert low == pytest.approx(841, abs=1) and high == pytest.approx(959, abs=1)


def _run(scheme: str, seed: int, goodput: float, scenario: str = "fbdt-6c-los", **more: object) -> dict[str, object]:
    return {"scenario": scenario, "scheme": scheme, "congestion": "cubic", "seed": seed, "case": {},
            "goodput_mbps": goodput, "completed": True, "error": None, "paths": [], **more}


def test_claims_count_what_counts() -> None:
    seeds = range(1, 6)
    runs = [_run("fbdt", n, 1900 + n) for n in seeds] + [_run("linux-mptcp", n, 1400 + n) for n in seeds]
    claim = next(one for one in claims.FBDT if one.name == "6c.2")
    assert claims.judge(claim, runs).holds is True
    # One that failed is no result.
    bad = [_run("fbdt", 6, 10, error="it failed"), _run("fbdt", 7, 10, emulator={"valid": False})]
    assert claims.judge(claim, [*runs, *bad]).figure == claims.judge(claim, runs).figure
    assert claims.judge(claim, runs[:1]).holds is None


def test_what_the_sources_measured_passes_the_tests_of_their_own_sentences() -> None:
    # The papers' figures as runs of five seeds, which differ by a thousandth.
    def runs(name: str, rename: str) -> list[dict[str, object]]:
        rows = [(row["condition"], row["scheme"], float(row["value"])) for row in published(name)]
        return [_run(scheme, seed, value * (1 + seed / 1000), f"{rename}{condition}")
                for condition, scheme, value in rows for seed in range(1, 6)]

    logs, printed = runs("fbdt-6c-logs", "fbdt-6c-"), runs("fbdt-3b", "fbdt-3b-")
    for claim in claims.FBDT:
        # WiFi alone was faster in all figures: the abstract's sentence is of none of them. Seconds are in no
        # table, nor are the cases of Eq. 1 and 2, nor a gain's interval.
        if claim.name.startswith(("6c", "3b")):
            found = claims.judge(claim, logs if claim.name.startswith("6c") else printed)
            assert found.holds is (claim.name != "6c.9"), (claim.name, found)
    assert effect(1.2) == 1.15 and effect(0.2) == 0.4


def test_a_transfer_that_was_not_finished_is_no_missing_value() -> None:
    [claim] = [one for one in claims.COTAG if one.name == "6a.queue"]

    late: dict[str, object] = {"completed": False, "error": "the transfer was not finished after 60s", "completion_s": None}

    def runs(
        cotag_s: float | None, delays: tuple[str, ...] = ("0ms", "5ms", "10ms", "20ms", "40ms"),
        musher_s: float | None = 2.0,
    ) -> list[dict[str, object]]:
        """Times that differ by a thousandth from seed to seed; at 40 ms those that are given."""
        found = []
        for delay in delays:
            case = {"loss": "0.0", "backend.delay": delay, "workload.parallel": "4"}
            for seed in range(1, 6):
                for scheme, time_s, near_s in (("cotag", cotag_s, 1.0), ("musher", musher_s, 2.0)):
                    if delay != "40ms":
                        time_s = near_s
                    ended = late if time_s is None else {"completion_s": time_s * (1 + seed / 1000)}
                    found.append(_run(scheme, seed, 1.0, "cotag-fig6", **{"case": case, "duration_s": 60.0, **ended}))
        return found

    assert claims.judge(claim, runs(1.0)).holds is True
    assert claims.judge(claim, runs(1.9)).holds is False
    assert claims.judge(claim, runs(None)).holds is False
    # MuSher takes longer than it had: that it is slower can be seen, and that it is not cannot.
    assert claims.judge(claim, runs(30.0, musher_s=None)).holds is True
    assert claims.judge(claim, runs(50.0, musher_s=None)).holds is None
    assert claims.judge(claim, runs(None, musher_s=None)).holds is None
    # A delay of which there are no runs leaves it open.
    assert claims.judge(claim, runs(1.0, ("0ms", "10ms"))).holds is None


def test_ratios_of_ratios_are_paired_by_seed() -> None:
    [claim] = [one for one in claims.COTAG if one.name == "5d"]
    runs = []
    for seed in range(1, 7):
        for loss, fall in (("0.0", 0.5), ("0.00001", 0.49)):
            for delay, goodput in (("0ms", 100.0), ("40ms", 100.0 * fall + seed)):
                case = {"loss": loss, "backend.delay": delay, "workload.parallel": "4"}
                # Seeds differ by more than errors cost.
                for scheme in ("cotag", "musher"):
                    runs.append(_run(scheme, seed, goodput + (seed / 1e4 if loss == "0.0" else 0), "cotag-fig5", case=case))
    assert claims.judge(claim, runs).holds is True
    missing = [run for run in runs if not (run["seed"] == 1 and run["case"]["backend.delay"] == "40ms"  # type: ignore[index]
                                           and run["case"]["loss"] == "0.0")]  # type: ignore[index]
    found = claims.judge(claim, missing)
    assert found.holds is True and "n = 5" in found.figure


def test_quality_against_the_rate_is_drawn(tmp_path: pathlib.Path) -> None:
    (tmp_path / "fig6f/of-constant").mkdir(parents=True)
    file = tmp_path / "fig6f/of-constant/vr.jsonl"
    sessions = [
        {**_session(video, 1, "viewer-1", "ows", "fbdt", 30 + rate), "rate_mbps": rate, "concealment": "last-received"}
        for video in ("plaza", "reef") for rate in (1.0, 2.0)]
    file.write_text("".join(json.dumps(one) + "\n" for one in sessions))
    [drawn] = figures.draw_all(tmp_path, tmp_path / "out", ["fbdt-3c"])
    assert not drawn.missing
    file.write_text(json.dumps({**sessions[0], "concealment": "grey"}) + "\n")
    [drawn] = figures.draw_all(tmp_path, tmp_path / "out", ["fbdt-3c"])
    assert drawn.missing


def test_means_over_schedulers_are_no_draws() -> None:
    # Each seed has more on LTE, and schedulers differ by far more than seeds do.
    [claim] = [one for one in claims.SLIDES if one.name == "A1.2"]
    runs = []
    for seed in (1, 2, 3):
        for place, scheme in enumerate(_SCHEDULERS):
            for control in ("bbr", "cubic", "compound", "lia", "olia", "balia"):
                run = {**_played("sim", seed, 0, scheme), "congestion": control}
                lte = (place - 2) * 1000 + seed
                run["paths"] = [{"name": "wifi", "bytes_sent": 5000}, {"name": "lte", "bytes_sent": 5000 + lte}]
                runs.append(run)
    found = claims.judge(claim, runs)
    assert found.holds is True and "502 ± 2.5, n = 3" in found.figure


def test_a_distribution_keeps_its_ends() -> None:
    values, shares = cdf(range(1000), 11)
    assert (values[0], values[-1], shares[5], values[5]) == (0, 999, 0.5, 499)
    assert cdf([]) == ([], [])


def test_all_sources_are_there() -> None:
    sources = {one.source for one in figures.FIGURES.values()}
    assert sources == {"FBDT", "COTAG", "MPTCP with BBR", "Ours"}
    assert wl.sweeps()
