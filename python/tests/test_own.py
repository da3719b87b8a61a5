"""Schedulers and congestion controls of one's own: the same runs as Rust's, and what they get wrong."""

import concurrent.futures
import copy
import fractions
import functools
import math
import multiprocessing
import os
import pathlib
import subprocess
import sys
import textwrap
import threading
import traceback
import types

import pytest

import weftline as wl
from weftline import _own, _weftline
from weftline._own import digest_of


class MinRtt(wl.Picker):
    """The rule of `min-rtt`."""

    def pick(self, now, paths):  # type: ignore[no-untyped-def]
        return min((p for p in paths if p.has_room), key=lambda p: p.srtt_s).index


class Redundant(wl.Scheduler):
    """The rule of `redundant`: every path sends the lowest bytes that it has not sent."""

    by_segment = True

    def next(self, view):  # type: ignore[no-untyped-def]
        for path in view.paths:
            wanted = [*view.unsent[:1], *filter(None, [path.lowest_foreign])]
            if path.room and wanted:
                start, end = min(wanted)
                return path.index, start, min(end, start + path.chunk)
        return None


class Reno(wl.Control):
    """The arithmetic of `reno`: whole segments, and what is acknowledged towards the next."""

    def __init__(self, mss, initial_cwnd):  # type: ignore[no-untyped-def]
        self.whole, self.credit = float(initial_cwnd), 0.0
        super().__init__(mss, initial_cwnd)

    @property
    def cwnd(self):  # type: ignore[no-untyped-def]
        return self.whole + self.credit / self.whole

    @cwnd.setter
    def cwnd(self, cwnd):  # type: ignore[no-untyped-def]
        cwnd = max(cwnd, 1.0)
        self.whole = math.floor(cwnd)
        self.credit = (cwnd - self.whole) * self.whole

    def on_ack(self, ack):  # type: ignore[no-untyped-def]
        if ack.phase == "recovery" or not ack.cwnd_limited:
            return
        left = float(ack.delivered)
        if self.whole < self.ssthresh:
            used = max(min(left, self.ssthresh - self.whole), 0.0)
            self.cwnd += used
            left -= used
            if used == ack.delivered:
                left = 0.0
        self.credit += left
        while self.credit >= self.whole:
            self.credit -= self.whole
            self.whole += 1.0

    def on_penalty(self):  # type: ignore[no-untyped-def]
        if self.whole >= self.ssthresh:
            self.ssthresh = max(2.0, self.ssthresh // 2)
        self.cwnd = self.whole // 2

    def on_unused_window(self, cwnd):  # type: ignore[no-untyped-def]
        if cwnd < self.whole:
            self.ssthresh = max(self.ssthresh, math.floor(self.whole * 0.75))
            self.cwnd = math.floor(cwnd)

    def _reduce(self):  # type: ignore[no-untyped-def]
        self._before = (self.cwnd, self.ssthresh)
        self.ssthresh = max(2.0, self.whole // 2)


@pytest.fixture
def lossy(links: wl.Scenario) -> wl.Scenario:
    """Two links that lose packets, and one that goes away: recoveries, timeouts and stalls."""
    outage = {"generator": "outage", "rate": "20Mbps", "up": ["1s", "2s"], "down": ["300ms", "900ms"]}
    return wl.Scenario(
        "lossy",
        duration="6s",
        warmup="1s",
        receive_buffer="512KiB",
        paths=[
            wl.Path("wifi", rate="30Mbps", delay="5ms", loss=0.01),
            wl.Path("lte", trace=outage, delay="30ms"),
        ],
    )


@pytest.mark.parametrize("congestion", ["cubic", "bbr"])
def test_a_picker_in_python_is_the_one_in_rust(lossy: wl.Scenario, congestion: str) -> None:
    own = wl.run(lossy, MinRtt, congestion=congestion, seed=5)
    theirs = wl.run(lossy, "min-rtt", congestion=congestion, seed=5)
    assert own.digest == theirs.digest
    assert own.scheme.startswith(f"py:{__name__}.MinRtt@") and theirs.scheme == "min-rtt"
    same = {key: value for key, value in own.items() if key != "scheme"}
    assert same == {key: value for key, value in theirs.items() if key != "scheme"}


def test_a_scheduler_in_python_is_the_one_in_rust(links: wl.Scenario) -> None:
    own, theirs = (wl.run(links, scheme) for scheme in (Redundant, "redundant"))
    assert own.digest == theirs.digest
    assert own.error is None and own.duplicate_bytes > 0


def test_a_control_in_python_is_the_one_in_rust(lossy: wl.Scenario) -> None:
    for scheme in ("min-rtt", "single:wifi"):
        own = wl.run(lossy, scheme, congestion=Reno, seed=5)
        theirs = wl.run(lossy, scheme, congestion="reno", seed=5)
        assert own.digest == theirs.digest
        assert own.congestion.startswith(f"py:{__name__}.Reno@")


def test_both_in_python_with_arguments(links: wl.Scenario) -> None:
    class Weighted(wl.Picker):
        def __init__(self, weight: float) -> None:
            self.weight = weight

        def pick(self, now, paths):  # type: ignore[no-untyped-def]
            return max(
                (p for p in paths if p.has_room),
                key=lambda p: self.weight * p.rate_mbps - p.srtt_s,
            ).index

    results = wl.batch(
        {"scenario": links, "scheme": scheme, "congestion": congestion}
        for scheme in (functools.partial(Weighted, 2.0), "min-rtt", functools.partial(Weighted, 0.0))
        for congestion in (Reno, "cubic")
    )
    assert len(results) == 6 and all(goodput > 20 for goodput in results["goodput_mbps"])
    names = results["scheme"]
    # Other arguments are another scheme.
    assert names[0] == names[1] != names[4] and names[2] == "min-rtt"


class Fails(wl.Picker):
    """Fails after a while."""

    def __init__(self) -> None:
        self.calls = 0

    def pick(self, now, paths):  # type: ignore[no-untyped-def]
        self.calls += 1
        return {}["no path"] if self.calls > 100 else paths[0].index


def test_an_exception_ends_the_run_with_its_traceback(links: wl.Scenario) -> None:
    with pytest.raises(KeyError, match="no path") as raised:
        wl.run(links.replace(duration="1000s"), Fails)
    said = "".join(traceback.format_exception(raised.value))
    assert "in pick" in said and '{}["no path"]' in said


def test_what_makes_no_sense_is_refused(links: wl.Scenario) -> None:
    class Far(wl.Picker):
        def pick(self, now, paths):  # type: ignore[no-untyped-def]
            return 7

    class Beyond(wl.Scheduler):
        def next(self, view):  # type: ignore[no-untyped-def]
            return 0, view.limit, view.limit + 1

    class Shrinks(wl.Control):
        def on_ack(self, ack):  # type: ignore[no-untyped-def]
            self.cwnd = math.nan

    class NoWindow(wl.Control):
        def __init__(self, mss: int) -> None:
            pass

    with pytest.raises(IndexError, match="there is no path 7; there are 2"):
        wl.run(links, Far)
    assert f"py:{__name__}" in wl.run(links, Beyond).error
    with pytest.raises(ValueError, match="a window is a number of segments from 1 to .*not NaN"):
        wl.run(links, "min-rtt", congestion=Shrinks)
    with pytest.raises(TypeError, match="positional argument"):
        wl.run(links, "min-rtt", congestion=NoWindow)
    with pytest.raises(NotImplementedError):
        wl.run(links, wl.Picker)
    with pytest.raises(TypeError, match="a class that is a Picker or a Scheduler"):
        wl.run(links, int)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a class that is a Control"):
        wl.run(links, "min-rtt", congestion=MinRtt)  # type: ignore[arg-type]
    # Their names are nobody's.
    assert not any(name.startswith("py:") for name in [*wl.schemes(), *wl.congestion_controls()])
    with pytest.raises(ValueError, match="there is no scheme 'py:MinRtt'.*only that goes on with it"):
        wl.run(links, "py:MinRtt")


@pytest.fixture
def own_sweep(links: wl.Scenario) -> wl.Sweep:
    """Eight runs, of which six have something of Python's."""
    return wl.Sweep(links, scheme=[MinRtt, "min-rtt"], congestion=[Reno, "reno"], seed=[1, 2])


def lines(directory: pathlib.Path) -> list[str]:
    """The records of a directory."""
    return (directory / "runs.jsonl").read_text().splitlines(keepends=True)


def test_a_sweep_has_classes(
    own_sweep: wl.Sweep, links: wl.Scenario, tmp_path: pathlib.Path
) -> None:
    results = own_sweep.run(tmp_path / "whole")
    assert len(results) == 8 and len(set(results["scheme"])) == len(set(results["congestion"])) == 2
    # The same rules have the same digests: there are as many as seeds.
    assert len(set(results["digest"])) == 2
    alone = wl.run(links, MinRtt, congestion=Reno, seed=2)
    assert alone.digest in results["digest"] and alone.scheme in results["scheme"]
    # What was begun is gone on with.
    whole = lines(tmp_path / "whole")
    runs = tmp_path / "whole" / "runs.jsonl"
    runs.write_text("".join(whole[:3]))
    own_sweep.run(tmp_path / "whole")
    assert lines(tmp_path / "whole") == whole
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        own_sweep.run(tmp_path / "processes", on=executor)
    assert lines(tmp_path / "processes") == whole


def test_another_version_of_a_class_is_another_scheme(links: wl.Scenario, tmp_path: pathlib.Path) -> None:
    def picks(source: str) -> type:
        return version(f"class Same(MinRtt):\n    def pick(self, now, paths):\n        {source}")

    first, second = picks("return super(Same, self).pick(now, paths)"), picks("return paths[0].index")
    wl.Sweep(links, scheme=first).run(tmp_path)
    with pytest.raises(ValueError, match="is another sweep"):
        wl.Sweep(links, scheme=second).run(tmp_path)


def version(source: str, **names: object) -> type:
    """The class `Same` of a source, in a module of its own."""
    scope: dict[str, object] = {"MinRtt": MinRtt, "functools": functools, **names}
    exec(textwrap.dedent(source), scope)
    return scope["Same"]  # type: ignore[return-value]


_RULE = """
    ALPHA = 0.5
    def weight(path, by={by}):
        return by
    class Base(MinRtt):
        bias = {bias}
    def made(by):
        class Same(Base):
            order = {order}
            def pick(self, now, paths, limit={limit}, *, most={most}):
                return int(weight(paths[0]) + ALPHA + by + self.bias + self.late)
            @property
            def late(self):
                return {late}
        return Same
    Same = made({cell})
"""
_VALUES = {"by": "1", "bias": "0", "order": "{'b', 'a', 'c'}", "limit": "2", "most": "3", "late": "4", "cell": "5"}


@pytest.mark.parametrize("changed", [*_VALUES, "ALPHA"])
def test_whatever_a_class_reaches_makes_another_version(changed: str) -> None:
    text = _RULE.format(**_VALUES)
    other = text.replace("0.5", "0.25") if changed == "ALPHA" else _RULE.format(**{**_VALUES, changed: "70"})
    first, same, second = map(version, (text, text, other))
    assert digest_of(first) == digest_of(same) != digest_of(second)


def test_a_digest_is_the_same_in_every_process() -> None:
    # Sets of texts have another order in each.
    script = (f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
              "import test_own as own\n"
              "print(own.digest_of(own.version(own._RULE.format(**own._VALUES))), own.digest_of(own.Reno))")
    said = {subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed},
                           check=True, capture_output=True, text=True).stdout for seed in ("1", "2")}
    assert said == {f"{digest_of(version(_RULE.format(**_VALUES)))} {digest_of(Reno)}\n"}


def test_what_reaches_something_of_the_user_s_is_told_by_it(tmp_path: pathlib.Path) -> None:
    def with_helper(rule: str) -> type:
        helper = types.ModuleType("helper")
        exec(f"def rule(paths):\n    return {rule}", helper.__dict__)
        return version("class Same(MinRtt):\n    def pick(self, now, paths):\n        return helper.rule(paths)",
                       helper=helper)

    assert digest_of(with_helper("0")) == digest_of(with_helper("0")) != digest_of(with_helper("1"))
    # Of what is Python's or installed the name is enough, and an object is told by what it holds.
    value = "class Same(MinRtt):\n    at = value\n    def pick(self, now, paths):\n        return math.floor(0)"
    for one, other in ((fractions.Fraction(1, 2), fractions.Fraction(1, 3)), ([1, {2: 3}], [1, {2: 4}])):
        digests = [digest_of(version(value, value=what, math=math)) for what in (one, copy.deepcopy(one), other)]
        assert digests[0] == digests[1] != digests[2] and "-" not in digests[0]


def test_a_class_that_keeps_what_it_sees_is_the_same_after_a_run(links: wl.Scenario) -> None:
    # A module that is not there yet, too.
    text = """
class Same(MinRtt):
    runs = 0
    def pick(self, now, paths):
        import colorsys
        seen[now] = colorsys.ONE_THIRD
        type(self).runs += 1
        return super().pick(now, paths)
"""
    sys.modules.pop("colorsys", None)
    one, other = version(text, seen={}), version(text, seen={})
    name = wl.run(links, one).scheme
    assert one.runs > 0 and "colorsys" in sys.modules  # type: ignore[attr-defined]
    assert wl.run(links, one).scheme == name and not _own.is_other(one, name)
    assert digest_of(other) == digest_of(one), "it has not run, and the module is there by now"


def test_what_cannot_be_digested_is_gone_on_with_by_no_other_process(
    links: wl.Scenario, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = version("class Same(MinRtt):\n    lock = lock", lock=threading.Lock())
    name = wl.run(links, locked).scheme
    assert name == wl.run(links, locked).scheme and name.count("-") == 1
    wl.Sweep(links, scheme=locked).run(tmp_path)
    monkeypatch.setattr(_own, "_FRESH", "anew")
    assert not _own.is_other(locked, name)
    with pytest.raises(ValueError, match="is another sweep"):
        wl.Sweep(links, scheme=locked).run(tmp_path)


def test_a_name_stands_for_one_way_of_being_asked(links: wl.Scenario) -> None:
    class Asked(Redundant):
        by_segment = False

    names = [wl.run(links, Asked).scheme]
    Asked.by_segment = True
    names.append(wl.run(links, Asked).scheme)
    assert names[0] != names[1]
    with pytest.raises(ValueError, match="has another by_segment in this process"):
        _weftline.Part(names[0], "scheduler", Asked, by_segment=True)


def test_an_exception_in_a_sweep_names_the_run_and_keeps_the_others(
    links: wl.Scenario, tmp_path: pathlib.Path
) -> None:
    sweep = wl.Sweep(links, scheme=["min-rtt", Fails], seed=[1, 2], set={"path.wifi.loss": [0.01]})
    with pytest.raises(KeyError, match="no path") as raised:
        sweep.run(tmp_path, threads=1)
    [note] = raised.value.__notes__
    assert "two-links, py:" in note and "seed 1, path.wifi.loss = 0.01" in note
    assert [wl.Results.load(tmp_path)["scheme"][0], len(lines(tmp_path))] == ["min-rtt", 1]


def test_what_is_local_to_a_thread_stays_within_a_run() -> None:
    class Local(wl.Picker):
        def __init__(self):  # type: ignore[no-untyped-def]
            self.local = threading.local()
            self.local.calls = 0

        def pick(self, now, paths):  # type: ignore[no-untyped-def]
            self.local.calls += 1
            return min((p for p in paths if p.has_room), key=lambda p: p.srtt_s).index

    links = wl.Scenario("local", paths=[wl.Path("a", rate="5Mbps")], duration="1s")
    alone = wl.run(links, Local).goodput_mbps
    assert alone == wl.run(links, "min-rtt").goodput_mbps
    assert wl.batch([{"scenario": links, "scheme": Local}] * 2)["goodput_mbps"] == [alone] * 2


def test_what_a_class_gets_wrong_is_named() -> None:
    class Paced(wl.Control):
        rate: float = 0.0

        def on_ack(self, ack):  # type: ignore[no-untyped-def]
            self.pacing_rate_mbps = self.rate

    links = wl.Scenario("wrong", paths=[wl.Path("a", rate="5Mbps")], duration="1s")
    for rate in (0.0, -1.0, math.nan, math.inf):
        control = type("Paced", (Paced,), {"rate": rate})
        with pytest.raises(ValueError, match="pacing_rate_mbps is a number above 0, or None"):
            wl.run(links, "min-rtt", congestion=control)

    class Before(wl.Picker):
        def pick(self, now, paths):  # type: ignore[no-untyped-def]
            return -1

    with pytest.raises(IndexError, match="there is no path -1; there are 1"):
        wl.run(links, Before)

    class Misspelt(wl.Picker):
        def pik(self, now, paths):  # type: ignore[no-untyped-def]
            return 0

    with pytest.raises(NotImplementedError, match=r"Misspelt has no pick\(self, now, paths\), which a Picker needs"):
        wl.run(links, Misspelt)
