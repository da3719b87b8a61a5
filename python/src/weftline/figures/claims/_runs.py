"""A claim, and the runs that it is tested on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..._results import Results
from .._data import seconds
from ..verdict import Test

Record = Mapping[str, Any]
Pairs = list[tuple[object, float]]


@dataclass(frozen=True)
class Claim:
    """A sentence of a source, and how it is tested on the runs of a sweep."""

    name: str
    source: str
    where: str
    sentence: str
    # The test in words.
    test: str
    sweep: str
    judge: Callable[[Runs], Test]
    # A reading of a sentence that has another row already, and is not counted again.
    is_variant: bool = False


def counts(run: Record) -> bool:
    """Whether a run is a result."""
    is_valid: bool = run.get("emulator", {}).get("valid", True)
    return bool(run.get("completed")) and run.get("error") is None and is_valid


def is_unfinished(run: Record) -> bool:
    """Whether a transfer had not ended when its run did, which tells that it takes longer."""
    return str(run.get("error")).startswith("the transfer was not finished")


def time_s(run: Record) -> float | None:
    """The time of a transfer; of one that was not finished the time that it had, which is less."""
    value: float | None = run["duration_s"] if is_unfinished(run) else run.get("completion_s")
    return value


class Runs:
    """Runs that count, by what tells them apart."""

    def __init__(self, records: Iterable[Record] | Results, soft: bool = False) -> None:
        # TP-STY and TR-STY as printed wait for the path they stay on; `soft` takes those that do not.
        self._soft = soft
        self._results = records if isinstance(records, Results) else None
        self.records = list(records)
        self._of: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
        for run in self.records:
            if "scenario" in run and (counts(run) or is_unfinished(run)):
                key = (run["scenario"], run["scheme"], run["congestion"])
                self._of[key].append(run)

    def values(
        self, scenario: str, scheme: str, congestion: str, value: Callable[[Record], float | None],
        case: Mapping[str, str] | None = None, unfinished: bool = False,
    ) -> Pairs:
        """By seed and case, what the runs say, also those that were not finished where these are wanted."""
        pairs: Pairs = []
        for run in self.of(scenario, scheme, congestion):
            swept = run.get("case", {})
            found = value(run) if unfinished or counts(run) else None
            if found is not None and is_of(run, case or {}):
                pairs.append(((run["seed"], tuple(sorted(swept.items()))), found))
        return pairs

    def of(self, scenario: str, scheme: str, congestion: str) -> list[Record]:
        """The runs themselves."""
        if self._soft and f"{scheme}-soft" in {key[1] for key in self._of}:
            scheme = f"{scheme}-soft"
        return self._of.get((scenario, scheme, congestion), [])

    def has_unfinished(self, scenario: str, scheme: str, congestion: str, case: Mapping[str, str]) -> bool:
        """Whether a transfer was not finished."""
        return any(is_unfinished(run) and is_of(run, case) for run in self.of(scenario, scheme, congestion))

    def cases(self, scenario: str) -> list[dict[str, str]]:
        """What was swept over a scenario."""
        of_scenario = [run for (name, _, _), runs in self._of.items() if name == scenario for run in runs]
        return [dict(case) for case in sorted({tuple(sorted(run.get("case", {}).items())) for run in of_scenario})]

    def seconds(self, scenario: str, scheme: str) -> list[list[float]]:
        """Of each run with CUBIC the goodput of each of its seconds; none without series."""
        if self._results is None:
            return []
        of_runs = seconds(self._results, scenario).items()
        return [
            values for (name, run), values in of_runs
            if name == scheme and counts(self.records[run]) and self.records[run]["congestion"] == "cubic"]


def is_of(run: Record, case: Mapping[str, str]) -> bool:
    """Whether these are among the values that were set for a run."""
    swept = run.get("case", {})
    return all(swept.get(_key(key)) == value for key, value in case.items())


def _key(name: str) -> str:
    return {"delay": "backend.delay", "connections": "workload.parallel"}.get(name, name)
