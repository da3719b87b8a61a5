"""Single runs and lists of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from . import _weftline
from ._results import Results
from ._scenario import ScenarioLike, scenario_of


class Record(Mapping[str, Any]):
    """A part of a record: keys are attributes too. A key that does not apply is `None`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return _wrap(self._values[key])

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):
            raise AttributeError(key)
        return _wrap(self._values.get(key))

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        return repr(dict(self._values))


def _wrap(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_wrap(item) for item in value]
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
        return {path["name"]: Record(path) for path in self._values.get("paths", [])}

    @property
    def series(self) -> _weftline.Table:
        """Time series, a row for each 100 ms: `polars.DataFrame(run.series)`. Empty unless the run
        was made with `series=True`."""
        return self._inner.series


def run(
    scenario: ScenarioLike,
    scheme: str,
    *,
    congestion: str = "cubic",
    seed: int = 1,
    series: bool = False,
) -> Run:
    """Runs `scheme` over `scenario` in the simulator.

    Raises `ScenarioError` for a wrong scenario and `ValueError` for what the simulator cannot run.
    A run that failed, such as one whose connections do not stand within 30 s, has an `error`.
    """
    inner = scenario_of(scenario)._inner
    return Run(_weftline.run(inner, scheme, congestion, seed, series))


def batch(
    runs: Iterable[Mapping[str, Any]],
    *,
    threads: int | None = None,
) -> Results:
    """Does any list of runs at once, each a mapping with `scenario`, `scheme`, and, if wanted,
    `congestion` and `seed`; the results have their order.

        wl.batch({"scenario": "demo", "scheme": s} for s in ("earliest", "min-rtt"))
    """
    wanted = []
    for one in runs:
        unknown = set(one) - {"scenario", "scheme", "congestion", "seed"}
        if unknown:
            raise ValueError(f"a run has no {', '.join(sorted(unknown))}; it has scenario, scheme, "
                             "congestion and seed")
        scenario = scenario_of(one["scenario"])._inner
        wanted.append((scenario, one["scheme"], one.get("congestion", "cubic"), one.get("seed", 1)))
    records: list[str] = []
    _weftline.run_all(
        wanted, threads, False, lambda done: records.append(done.json)
    )
    return Results(records)
