"""Where results are, and what the sources printed."""

from __future__ import annotations

import csv
import importlib.resources
import json
import math
import pathlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._results import Results, ci95
from ._catalog import Need
from ._quantiles import student_t
from .counts import discards_say, link_discards

WORLDS = ("sim", "lab")
Cell = tuple[float, float | None]


class Missing(LookupError):
    """Results that are not there."""


class Data:
    """A folder of results: `sim/NAME` and `lab/NAME` are those of a sweep, other files are named by the
    figures that show them."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self._read: dict[pathlib.Path, Results | None] = {}

    def results(self, need: Need, world: str = "sim") -> Results | None:
        """The results of a sweep; `None` if there are none."""
        folder = self.root / world / need.name
        if folder not in self._read:
            there = (folder / "runs.jsonl").exists()
            self._read[folder] = Results.load(folder) if there else None
        return self._read[folder]

    def wanted(self, need: Need, world: str = "sim") -> Results:
        """The same; `Missing` names them if there are none."""
        results = self.results(need, world)
        if results is None or len(results) == 0:
            raise Missing(f"{world}/{need.name}")
        return results

    def means(
        self, need: Need, value: str, by: Sequence[str], confidence: float = 0.95
    ) -> dict[str, dict[tuple[Any, ...], Cell]]:
        """By world, the mean and the half-width of its interval in each group of `by`."""
        worlds = {}
        for world in WORLDS:
            results = self.results(need, world)
            if results is not None and len(results):
                rows = ci95(results, value, by=list(by))
                worlds[world] = {
                    tuple(row[key] for key in by): (row["mean"], _at(confidence, row["half_width"], row["n"]))
                    for row in rows
                }
        if not worlds:
            raise Missing(f"sim/{need.name}")
        return worlds

    def counted(
        self, need: Need, count: Callable[[dict[str, Any]], float | None], by: Sequence[str],
        say: Callable[[list[dict[str, Any]]], bool] = lambda runs: True,
    ) -> dict[str, dict[tuple[Any, ...], Cell]]:
        """The same of what is counted of a run; groups that do not `say` anything of it are left out."""
        from .. import _weftline

        worlds: dict[str, dict[tuple[Any, ...], Cell]] = {}
        for world in WORLDS:
            groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
            for run in self.results(need, world) or ():
                is_valid = run.get("emulator", {}).get("valid", True)
                if run.get("completed") and run.get("error") is None and is_valid:
                    groups.setdefault(tuple(run[key] for key in by), []).append(run)
            for key, runs in groups.items():
                values = [found for found in map(count, runs) if found is not None]
                interval = _weftline.mean_ci95(values) if say(runs) else None
                if interval is not None:
                    worlds.setdefault(world, {})[key] = interval[:2]
        if not worlds:
            raise Missing(f"sim/{need.name}")
        return worlds

    def discards(self, need: Need, by: Sequence[str]) -> dict[str, dict[tuple[Any, ...], Cell]]:
        """The same of the pictures that were discarded because of the links."""
        return self.counted(need, link_discards, by, discards_say)

    def json(self, file: str) -> list[dict[str, Any]]:
        """The records of a file of lines."""
        path = self.root / file
        if not path.exists():
            raise Missing(file)
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]

    def csv(self, file: str) -> list[dict[str, str]]:
        """The rows of a table."""
        path = self.root / file
        if not path.exists():
            raise Missing(file)
        return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def _at(confidence: float, half_width: float | None, count: int) -> float | None:
    """The half-width at that confidence, of one at 95 %."""
    if half_width is None or confidence == 0.95:
        return half_width
    return half_width * student_t(count - 1, 1 - confidence) / student_t(count - 1, 0.05)


def seconds(results: Results, scenario: str) -> dict[tuple[str, int], list[float]]:
    """By scheme and run, the goodput of each second, from the series."""
    table = results.series
    schemes, scenarios = results["scheme"], results["scenario"]
    steps: dict[tuple[int, int], list[float]] = defaultdict(list)
    columns = (table.column(name) for name in ("time_s", "run", "path", "metric", "value"))
    for time_s, run, path, metric, value in zip(*columns):
        if path == "" and metric == "goodput_mbps" and scenarios[run] == scenario:
            steps[run, int(time_s - 1e-6)].append(value)
    by_run: dict[tuple[str, int], list[float]] = defaultdict(list)
    for (run, second), values in steps.items():
        # The first second is slow start.
        if second >= 1 and len(values) == 10:
            by_run[schemes[run], run].append(sum(values) / 10)
    return by_run


def published(name: str) -> list[dict[str, str]]:
    """The rows of what a source printed."""
    text = importlib.resources.files(__package__).joinpath(f"published/{name}.csv").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def cdf(values: Iterable[float], points: int = 200) -> tuple[list[float], list[float]]:
    """Where the distribution of values has so many equal steps."""
    ordered = sorted(values)
    if not ordered:
        return [], []
    shares = [step / (points - 1) for step in range(points)]
    last = len(ordered) - 1
    return [ordered[math.floor(share * last)] for share in shares], shares
