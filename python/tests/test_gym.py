"""Environments: gymnasium's own checks, the same runs in steps, and what actions do."""

import warnings

import numpy
import pytest

import weftline as wl

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed: pip install './python[gym]'")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from weftline import _weftline  # noqa: E402
from weftline.gym import CongestionEnv, SchedulerEnv, VectorEnv  # noqa: E402


@pytest.fixture
def offered(links: wl.Scenario) -> wl.Scenario:
    """A constant rate that neither path could carry alone."""
    return links.replace(duration="2s", workload="cbr:55Mbps")


@pytest.mark.parametrize("kind", [SchedulerEnv, CongestionEnv])
def test_gymnasium_finds_nothing(offered: wl.Scenario, kind: type) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(kind(offered), skip_render_check=True)


@pytest.mark.parametrize("step_s", [0.001, 0.07])
def test_steps_are_the_run(links: wl.Scenario, step_s: float) -> None:
    simulation = _weftline.Simulation(links._inner, "earliest", "bbr", 3, True, [])
    steps = 1
    while simulation.advance(step_s):
        steps += 1
    assert steps == pytest.approx(1 / step_s, abs=1)
    assert simulation.outcome().json == wl.run(links, "earliest", congestion="bbr", seed=3, series=True).json
    assert not simulation.advance(step_s)


def test_a_split_is_what_was_asked(offered: wl.Scenario) -> None:
    delay = {}
    for share in (0.5, 0.8):
        env = SchedulerEnv(offered, congestion="bbr")
        env.reset(seed=1)
        over = False
        while not over:
            _, reward, terminated, over, _ = env.step(numpy.array([share, 1 - share]))
            assert not terminated and reward == reward
        run = env.run()
        sent = {name: path.bytes_sent for name, path in run.paths.items()}
        if share == 0.8:
            assert sent["wifi"] / sum(sent.values()) == pytest.approx(0.8, abs=0.03)
        delay[share] = run.in_order_delay_ms.p95
    # LTE carries 20 Mb/s, and half of 55 is more.
    assert delay[0.8] < delay[0.5] / 2


def test_windows_are_what_was_asked(offered: wl.Scenario) -> None:
    env = CongestionEnv(offered, scheme="min-rtt")
    first, _ = env.reset(seed=1)
    for _ in range(4):
        observation, *_ = env.step(numpy.array([1.0, 0.0, -1.0, 0.0]))
    # Two to the fourth times ten segments, and one, in hundreds.
    assert observation[2] == pytest.approx(1.6) and observation[6] == pytest.approx(0.01)


@pytest.mark.parametrize("packet_size", [1500, 600, 9000])
def test_a_pace_is_of_the_segments_that_there_are(offered: wl.Scenario, packet_size: int) -> None:
    env = CongestionEnv(offered.replace(packet_size=packet_size), scheme="min-rtt")
    env.reset(seed=1)
    still = numpy.zeros(4)
    for _ in range(3):
        env.step(still)
    simulation, steered = env._running(), []

    class Told:
        segment_bytes = simulation.segment_bytes
        steer = steered.append

    env._simulation = Told  # type: ignore[assignment]
    env._act(still)
    # Headers of IP and TCP are 52 bytes.
    assert simulation.segment_bytes == packet_size - 52
    for (cwnd, pace), (_, srtt_s, *_) in zip(steered[0], simulation.observe()[4]):
        assert pace == pytest.approx(cwnd * (packet_size - 52) * 8e-6 / srtt_s)


def test_episodes_are_drawn_from_a_sweep(links: wl.Scenario) -> None:
    random = {"runs": 20, "seed": 1, "set": {"path.wifi.rate": {"from": "10Mbps", "to": "90Mbps"}}}
    sweep = wl.Sweep(links, scheme="earliest", random=random)
    env = SchedulerEnv(sweep)
    goodputs = set()
    for seed in range(4):
        env.reset(seed=seed)
        for _ in range(5):
            _, _, _, _, info = env.step(numpy.array([1.0, 0.0]))
        goodputs.add(round(info["goodput_mbps"], 1))
    # What WiFi carries alone.
    assert len(goodputs) == 4 and max(goodputs) > 1.5 * min(goodputs)


def test_a_vector_is_its_parts(offered: wl.Scenario) -> None:
    envs = VectorEnv([lambda: SchedulerEnv(offered)] * 3)
    observations, _ = envs.reset(seed=7)
    alone = SchedulerEnv(offered)
    first, _ = alone.reset(seed=8)
    assert observations.shape == (3, *first.shape) and (observations[1] == first).all()
    actions = numpy.full((3, 2), 0.5, numpy.float32)
    for _ in range(20):
        observations, rewards, _, over, _ = envs.step(actions)
        first, reward, _, _, _ = alone.step(actions[1])
        assert (observations[1] == first).all() and rewards[1] == reward
    assert over.all()
    # They begin anew.
    observations, rewards, _, over, infos = envs.step(actions)
    assert not over.any() and not rewards.any() and (infos["time_s"] == 0).all()


def test_a_scheme_of_other_connections_is_refused(offered: wl.Scenario) -> None:
    env = CongestionEnv(offered, scheme=f"single:{offered.paths[1]}")
    with pytest.raises(ValueError, match="has 1 connections, and the scenario 2 paths"):
        env.reset(seed=1)


def test_what_makes_no_sense_is_refused(offered: wl.Scenario) -> None:
    env = SchedulerEnv(offered)
    with pytest.raises(RuntimeError, match="reset the environment first"):
        env.step(numpy.array([0.5, 0.5]))
    env.reset(seed=1)
    with pytest.raises(ValueError, match="shares are 2 numbers from 0 on"):
        env.step(numpy.array([0.5]))
    with pytest.raises(ValueError, match="a step is above 0"):
        env._running().advance(-1.0)
