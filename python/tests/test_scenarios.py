"""Scenarios from code, from files and by name, and what they get wrong."""

import pathlib
import pickle

import pytest

import weftline as wl


def test_scenarios_are_listed_and_loaded_by_name() -> None:
    names = wl.scenarios()
    assert "demo" in names and "earliest" in wl.schemes() and "bbr" in wl.congestion_controls()
    for name in names:
        assert wl.Scenario.load(name).name == name
    for name in wl.sweeps():
        assert wl.Sweep.load(name).name == name


def test_a_scenario_from_code_is_the_one_from_its_file(
    links: wl.Scenario, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "two-links.toml"
    file.write_text(links.text)
    assert wl.run(file, "earliest").json == wl.run(links, "earliest").json


def test_a_scenario_is_changed_by_key(links: wl.Scenario) -> None:
    changed = links.replace(
        duration="2s", path__wifi__loss=0.5, workload="cbr:10Mbps", scheduler__window="2MiB"
    )
    assert changed.duration_s == 2.0 and "loss = 0.5" in changed.text
    assert links.duration_s == 1.0
    with pytest.raises(KeyError, match="no path 'wlan'; there are: wifi, lte"):
        links.replace(path__wlan__loss=0.1)
    with pytest.raises(TypeError, match="paths=…|path__NAME__KEY"):
        links.replace(path__wifi=None)
    # As the constructor has them; None is not there.
    one = links.replace(paths=[wl.Path("lan", rate="1Gbps", delay="1ms")], warmup=None)
    assert one.paths == ["lan"] and "warmup" not in one.text


def test_traces_go_with_the_scenario(tmp_path: pathlib.Path) -> None:
    for folder, rate in (("a", 10), ("b", 20)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lte.csv").write_text(f"time_s,rate_mbps\n0,{rate}\n1,{rate}\n")
    paths = [
        wl.Path(name, trace=wl.csv(tmp_path / name / "lte.csv"), delay="1ms") for name in ("a", "b")
    ]
    scenario = wl.Scenario("traces", duration="1s", paths=paths)
    assert sorted(scenario.traces) == ["1-lte.csv", "lte.csv"]
    results = wl.Sweep(scenario, scheme=["single:*"]).run(tmp_path / "out")
    slow, fast = results["goodput_mbps"]
    assert slow < 10 < fast < 20
    # Two scenarios may have traces of one name.
    one = [
        wl.Scenario(f"one-{rate}", duration="1s", paths=[
            wl.Path("a", trace=wl.csv(tmp_path / rate / "lte.csv"), delay="1ms")])
        for rate in ("a", "b")
    ]
    slow, fast = wl.Sweep(one, scheme="single:a").run(tmp_path / "two")["goodput_mbps"]
    assert slow < 10 < fast < 20
    other = scenario.replace(path__a__trace=wl.csv(tmp_path / "b" / "lte.csv"))
    assert wl.run(other, "single:a").goodput_mbps > 10
    # The one takes the place of the other.
    steady = scenario.replace(path__a__rate="5Mbps")
    assert wl.run(steady, "single:a").goodput_mbps < 5
    assert scenario.replace(path__a__rate="5Mbps", path__a__trace=None).text == steady.text
    with pytest.raises(wl.ScenarioError, match="a path needs a rate or a trace"):
        steady.replace(path__a__rate=None)
    back = steady.replace(path__a__trace=wl.csv(tmp_path / "b" / "lte.csv"))
    assert wl.run(back, "single:a").goodput_mbps > 10


def test_scenarios_sweeps_and_errors_can_be_sent_elsewhere(
    links: wl.Scenario, sweep: wl.Sweep
) -> None:
    again = pickle.loads(pickle.dumps(links))
    assert wl.run(again, "earliest").json == wl.run(links, "earliest").json
    assert pickle.loads(pickle.dumps(sweep)).text == sweep.text
    with pytest.raises(wl.ScenarioError) as raised:
        wl.Scenario("x", paths=[])
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_numbers_may_be_numpys(links: wl.Scenario) -> None:
    numpy = pytest.importorskip("numpy")
    lossy = links.replace(path__wifi__loss=numpy.float64(0.1))
    assert "loss = 0.1" in lossy.text
    swept = wl.Sweep(lossy, scheme="earliest", seed=numpy.arange(3),
                     set={"path.lte.loss": numpy.linspace(0, 0.1, 3)})
    assert len(swept) == 9


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"rate": "fast"}, "'fast' is no rate"),
        ({"rate": "1Mbps", "speed": 3}, "speed"),
        ({"rate": "1Mbps", "loss": 2}, "loss"),
        ({"rate": "1Mbps", "name": "ä" * 20}, "name"),
    ],
)
def test_what_a_file_may_not_say_python_may_not(keys: dict[str, object], reason: str) -> None:
    with pytest.raises(wl.ScenarioError, match=reason) as raised:
        wl.Scenario("wrong", paths=[{"name": "one", **keys}])
    assert raised.value.file == "<scenario wrong>" and raised.value.line == 4
    assert reason in raised.value.reason
    assert isinstance(raised.value, ValueError)


def test_times_are_checked_together() -> None:
    with pytest.raises(wl.ScenarioError, match="must be shorter than the duration"):
        wl.Scenario("x", duration="1s", warmup="2s", paths=[wl.Path("a", rate="1Mbps")])


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(wl.ScenarioError, match="no scenario 'dmeo'; known: .*demo"):
        wl.run("dmeo", "earliest")
    with pytest.raises(TypeError, match="key 'name': a object is no text"):
        wl.Scenario("x", paths=[{"name": object()}])


def test_any_text_can_be_said() -> None:
    about = 'a "quote", a \\, a tab\t, a line\n, \x7f and ü'
    assert wl.Scenario("x", about=about, paths=[wl.Path("a", rate="1Mbps")]).about == about
