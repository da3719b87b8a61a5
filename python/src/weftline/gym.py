"""Environments for reinforcement learning: a scheduler that splits, and a congestion control.

    from weftline.gym import SchedulerEnv

    env = SchedulerEnv("demo", step_s=0.1)
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step([0.7, 0.3])

Needs gymnasium and numpy (`pip install './python[gym]'`). An episode is a run of the scenario, or of a
case drawn from a sweep, whose seed comes from the environment's own. Offer a constant rate (`workload =
"cbr:20Mbps"`) and reward delay: under bulk data, almost any split earns the same.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

try:
    import gymnasium
    import numpy
    from gymnasium.vector import AutoresetMode
    from numpy.typing import NDArray
except ImportError as error:
    raise ImportError(f"weftline.gym needs gymnasium and numpy; in the sources, pip install './python[gym]' ({error})") from None

from . import _weftline
from ._runs import Run
from ._scenario import Scenario, ScenarioLike, scenario_of
from ._sweep import Sweep

Observation = NDArray[numpy.float32]
Action = NDArray[numpy.float32]
# What a simulation says of itself.
Seen = tuple[float, int, int, float, list[tuple[float, float, int, int, int]]]

# What an observation has for the whole and for each path; all are of the order of one.
WHOLE = ("goodput_100mbps", "waits_s")
PATH = ("cwnd_100", "srtt_s", "delivered_100mbps", "resent_100")
_HIGH = 1e6


def default_reward(info: Mapping[str, Any]) -> float:
    """Goodput of the step in units of 100 Mb/s, less the seconds for which the oldest byte waits."""
    return float(info["goodput_mbps"] / 100 - info["waits_s"])


class _Env(gymnasium.Env[Observation, Action], abc.ABC):
    """What both environments have in common."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        scenario: ScenarioLike | Sweep,
        *,
        scheme: str,
        congestion: str,
        step_s: float,
        reward: Callable[[Mapping[str, Any]], float],
    ) -> None:
        self._from = scenario if isinstance(scenario, Sweep) else scenario_of(scenario)
        self._scheme, self._congestion = scheme, congestion
        self.step_s, self._reward = step_s, reward
        self._simulation: _weftline.Simulation | None = None
        self.paths = self._draw(0).paths
        count = len(WHOLE) + len(PATH) * len(self.paths)
        self.observation_space = gymnasium.spaces.Box(0.0, _HIGH, (count,), numpy.float32)

    def _draw(self, number: int) -> Scenario:
        """A scenario of the sweep."""
        if isinstance(self._from, Scenario):
            return self._from
        return Scenario._of(self._from._inner.case(number))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins a run; its seed is drawn from the environment's."""
        super().reset(seed=seed)
        cases = len(self._from) if isinstance(self._from, Sweep) else 1
        scenario = self._draw(int(self.np_random.integers(cases)))
        if scenario.paths != self.paths:
            raise ValueError(f"the cases of the sweep have different paths: {scenario.paths}, and {self.paths}")
        run_seed = int(self.np_random.integers(1 << 31))
        self._duration_s = scenario.duration_s
        self._simulation = self._begin(scenario, run_seed)
        self._seen = self._simulation.observe()
        if (count := len(self._seen[4])) != len(self.paths):
            self._simulation = None
            raise ValueError(f"the scheme '{self._scheme}' has {count} connections, and the scenario {len(self.paths)} "
                             "paths; give a scenario of the paths that it takes (Scenario.replace(paths=[…]))")
        self._acted = self._at_first()
        observation, info = self._look(self._seen)
        return observation, info

    def step(
        self, action: Action
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Acts, and lets `step_s` pass. `terminated` is when a workload with an end has ended,
        `truncated` when the time is over."""
        self._act(action)
        return self._stepped(self._running().advance(self.step_s))

    def run(self) -> Run:
        """What has come of the episode so far, as the record of a run."""
        return Run(self._running().outcome())

    def _running(self) -> _weftline.Simulation:
        if self._simulation is None:
            raise RuntimeError("reset the environment first")
        return self._simulation

    def _stepped(self, goes_on: bool) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        seen = self._running().observe()
        observation, info = self._look(seen)
        time_s: float = seen[0]
        is_late = time_s >= self._duration_s
        return observation, self._reward(info), not goes_on and not is_late, is_late, info

    def _look(self, seen: Seen) -> tuple[Observation, dict[str, Any]]:
        time_s, _, delivered, waits_s, paths = seen
        passed = max(time_s - self._seen[0], 1e-9)
        goodput = (delivered - self._seen[2]) * 8e-6 / passed
        values = [goodput / 100, waits_s]
        for (cwnd, srtt_s, _, acked, resent), before in zip(paths, self._seen[4]):
            rate = (acked - before[3]) * 8e-6 / passed
            values += [cwnd / 100, srtt_s, rate / 100, (resent - before[4]) / 100]
        self._seen = seen
        info = {"time_s": time_s, "goodput_mbps": goodput, "waits_s": waits_s}
        return numpy.clip(numpy.array(values, numpy.float32), 0, _HIGH), info

    @abc.abstractmethod
    def _begin(self, scenario: Scenario, seed: int) -> _weftline.Simulation: ...

    @abc.abstractmethod
    def _at_first(self) -> list[float]: ...

    @abc.abstractmethod
    def _act(self, action: Action) -> None: ...


class SchedulerEnv(_Env):
    """Splits the stream: the action is the share of each path, in whatever unit. Each segment goes to
    the path that is furthest behind its share, and waits for it."""

    def __init__(
        self,
        scenario: ScenarioLike | Sweep,
        *,
        congestion: str = "cubic",
        step_s: float = 0.1,
        reward: Callable[[Mapping[str, Any]], float] = default_reward,
    ) -> None:
        super().__init__(scenario, scheme="", congestion=congestion, step_s=step_s, reward=reward)
        self.action_space = gymnasium.spaces.Box(0.0, 1.0, (len(self.paths),), numpy.float32)

    def _begin(self, scenario: Scenario, seed: int) -> _weftline.Simulation:
        part = _weftline.Part("py:weftline.gym.SchedulerEnv", "split")
        return _weftline.Simulation(scenario._inner, part.name, self._congestion, seed, False, [part])

    def _at_first(self) -> list[float]:
        return []

    def _act(self, action: Action) -> None:
        self._running().split([max(0.0, float(share)) for share in action])


class CongestionEnv(_Env):
    """Sets windows: the action has two numbers from -1 to 1 for each path. The window is multiplied by 2
    to the power of the first; the pace is cwnd / srtt by 2 to the power of the second."""

    # Segments: of what a path holds at first (RFC 6928), and at most.
    _FIRST, _MOST = 10.0, 1e5

    def __init__(
        self,
        scenario: ScenarioLike | Sweep,
        *,
        scheme: str = "earliest",
        step_s: float = 0.1,
        reward: Callable[[Mapping[str, Any]], float] = default_reward,
    ) -> None:
        super().__init__(scenario, scheme=scheme, congestion="reno", step_s=step_s, reward=reward)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2 * len(self.paths),), numpy.float32)

    def _begin(self, scenario: Scenario, seed: int) -> _weftline.Simulation:
        part = _weftline.Part("py:weftline.gym.CongestionEnv", "steered")
        return _weftline.Simulation(scenario._inner, self._scheme, part.name, seed, False, [part])

    def _at_first(self) -> list[float]:
        return [self._FIRST] * len(self.paths)

    def _act(self, action: Action) -> None:
        seen = {place: path for place, path in enumerate(self._seen[4])}
        segment_mb = self._running().segment_bytes * 8e-6
        windows = []
        for place, cwnd in enumerate(self._acted):
            cwnd = min(max(cwnd * 2 ** float(action[2 * place]), 1.0), self._MOST)
            self._acted[place] = cwnd
            srtt_s = seen[place][1] if place in seen else 0.0
            # Nothing is paced before the first round trip.
            pace = cwnd * segment_mb / srtt_s * 2 ** float(action[2 * place + 1]) if srtt_s else 0.0
            windows.append((cwnd, min(pace, 1e6)))
        self._running().steer(windows)


class VectorEnv(gymnasium.vector.VectorEnv[Observation, Action, NDArray[Any]]):
    """Environments side by side, which pass their time on a thread each, without the interpreter's
    lock. All have the same paths and step.

        envs = VectorEnv([lambda: SchedulerEnv("demo")] * 8)
    """

    def __init__(self, makers: Sequence[Callable[[], _Env]]) -> None:
        self.envs = [make() for make in makers]
        self.num_envs = len(self.envs)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        first = self.envs[0]
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        batch = gymnasium.vector.utils.batch_space
        self.observation_space = batch(first.observation_space, self.num_envs)
        self.action_space = batch(first.action_space, self.num_envs)
        self._over = [True] * self.num_envs

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins all; a number is the seed of the first, and the others have the next."""
        if seed is None or isinstance(seed, int):
            seeds: Sequence[int | None] = [
                None if seed is None else seed + place for place in range(self.num_envs)
            ]
        else:
            seeds = seed
        begun = [env.reset(seed=one) for env, one in zip(self.envs, seeds, strict=True)]
        self._over = [False] * self.num_envs
        return numpy.stack([one for one, _ in begun]), _infos([info for _, info in begun])

    def step(
        self, actions: Action
    ) -> tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Acts in all. One that was over begins anew, whatever its action."""
        going = [env for env, over in zip(self.envs, self._over) if not over]
        for env, action, over in zip(self.envs, actions, self._over):
            if not over:
                env._act(action)
        advanced = _weftline.advance_all([env._running() for env in going], self.envs[0].step_s)
        goes_on = iter(advanced)
        rows = []
        for env, over in zip(self.envs, self._over):
            if over:
                observation, info = env.reset()
                rows.append((observation, 0.0, False, False, info))
            else:
                rows.append(env._stepped(next(goes_on)))
        self._over = [terminated or truncated for _, _, terminated, truncated, _ in rows]
        observations, rewards, terminated, truncated, infos = zip(*rows)
        return (
            numpy.stack(observations),
            numpy.array(rewards, numpy.float64),
            numpy.array(terminated, numpy.bool_),
            numpy.array(truncated, numpy.bool_),
            _infos(infos),
        )


def _infos(infos: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {key: numpy.array([info[key] for info in infos]) for key in infos[0]}
