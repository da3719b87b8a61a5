"""Single runs and lists of them."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, SupportsIndex

from . import _weftline
from ._own import ControlLike, SchemeLike, named
from ._results import Results
from ._scenario import ScenarioLike, scenario_of


@functools.cache
def _known() -> frozenset[str]:
    """The keys that records may have."""
    return frozenset(_weftline.record_keys())


class Record(Mapping[str, Any]):
    """A part of a record: keys are attributes too. A key that does not apply is `None`, and one that no
    record has is an `AttributeError`."""

    # Where it is: the keys before its own, with a dot after each.
    _at = ""

    def __init__(self, values: Mapping[str, Any], at: str = "") -> None:
        self._values, self._at = values, at

    def __getitem__(self, key: str) -> Any:
        return _wrap(self._values[key], f"{self._at}{key}.")

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):
            raise AttributeError(key)
        if key in self._values:
            return self[key]
        if self._at + key in _known():
            return None
        import difflib

        here = [k.removeprefix(self._at) for k in _known() if k.startswith(self._at)]
        near = difflib.get_close_matches(key, [k for k in here if "." not in k], 1)
        hint = f"; is it '{near[0]}'?" if near else ""
        raise AttributeError(f"a record has no '{self._at}{key}'{hint}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        return repr(dict(self._values))


def _wrap(value: Any, at: str) -> Any:
    if isinstance(value, dict):
        return Record(value, at)
    if isinstance(value, list):
        return [_wrap(item, at) for item in value]
    return value


class Run(Record):
    """What came of a run: the keys of its record (docs/scenarios.md) as attributes, such as
    `goodput_mbps`, `in_order_delay_ms.p99`, `completed`, `error`."""

    def __init__(self, inner: _weftline.Run) -> None:
        super().__init__(json.loads(inner.json))
        self._inner = inner

    @property
    def json(self) -> str:
        """The record as `runs.jsonl` has it."""
        return self._inner.json

    @property
    def digest(self) -> str | None:
        """What tells one course of events from another: the same for the same run everywhere."""
        digest: str | None = self._values.get("digest")
        return digest

    @property
    def goodput_mbps(self) -> float | None:
        """Bytes released in order after the warm-up, in Mb/s."""
        goodput: float | None = self._values.get("goodput_mbps")
        return goodput

    @property
    def paths(self) -> dict[str, Record]:
        """What each path did, by name."""
        return {path["name"]: Record(path, "paths.") for path in self._values.get("paths", [])}

    @property
    def series(self) -> _weftline.Table:
        """Time series, a row for each 100 ms: `polars.DataFrame(run.series)`. Empty unless the run
        was made with `series=True`."""
        return self._inner.series


def run(
    scenario: ScenarioLike,
    scheme: SchemeLike,
    *,
    congestion: ControlLike = "cubic",
    seed: int = 1,
    series: bool = False,
) -> Run:
    """Runs `scheme` over `scenario` in the simulator. `scheme` is a name, or a class that is a `Picker`
    or `Scheduler`; `congestion` is a name, or a class that is a `Control`.

    Raises `ScenarioError` for a wrong scenario, `ValueError` for what the simulator cannot run, and
    what your own classes raise. A run that failed, such as one whose connections do not stand within
    30 s, has an `error`.
    """
    return Run(_run(scenario, scheme, congestion, seed, series))


def _run(
    scenario: ScenarioLike, scheme: SchemeLike, congestion: ControlLike, seed: int, series: bool
) -> _weftline.Run:
    inner = scenario_of(scenario)._inner
    scheme, congestion, parts = named(scheme, congestion)
    return _weftline.run(inner, scheme, congestion, _seed(seed), series, parts)


def batch(
    runs: Iterable[Mapping[str, Any]],
    *,
    threads: int | None = None,
    series: bool = False,
) -> Results:
    """Does any list of runs at once, each a mapping with `scenario`, `scheme`, and, if wanted,
    `congestion` and `seed`; the results have their order. Runs with classes of your own are done one
    at a time, beside those without. Different scenarios have different names.

        wl.batch({"scenario": "demo", "scheme": s} for s in ("earliest", "min-rtt"))
    """
    jobs: list[tuple[_weftline.Scenario, str, str, int]] = []
    named_so: dict[str, tuple[str, dict[str, str]]] = {}
    parts: list[_weftline.Part] = []
    for one in runs:
        unknown = set(one) - {"scenario", "scheme", "congestion", "seed"}
        if unknown:
            raise ValueError(f"a run has no {', '.join(sorted(unknown))}; it has scenario, scheme, "
                             "congestion and seed")
        missing = {"scenario", "scheme"} - set(one)
        if missing:
            raise ValueError(f"a run wants a {' and a '.join(sorted(missing))}")
        scheme, congestion, own = named(one["scheme"], one.get("congestion", "cubic"))
        parts += own
        scenario = scenario_of(one["scenario"])
        known = named_so.setdefault(scenario.name, (scenario.text, scenario.traces))
        if known != (scenario.text, scenario.traces):
            raise ValueError(f"two different scenarios have the name '{scenario.name}', by which their runs are "
                             "told apart; give each one of its own, as with scenario.replace(name=…)")
        jobs.append((scenario._inner, scheme, congestion, _seed(one.get("seed", 1))))
    made: list[_weftline.Run] = []
    _weftline.run_all(jobs, parts, threads, series, made.append)
    return Results([run.json for run in made], runs=made if series else None)


def _seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, SupportsIndex):
        raise TypeError(f"a seed is a whole number, not {seed!r}")
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"a seed is a number from 0 to 2^64 - 1, not {seed}")
    return seed
