"""Results: records of runs, as a table and with the statistics of the report."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _weftline


class Results:
    """Records of runs. Indexed by a number it has a dictionary for each, `results["goodput_mbps"]` is a
    column, and data frames take the whole: `polars.DataFrame(results)`, `pyarrow.table(results)`.

    The columns are the keys of the record; parts have a dot (`in_order_delay_ms.p99`,
    `paths.wifi.goodput_mbps`); what a sweep varied has its key (`path.wifi.loss`), rates in bits a
    second, sizes in bytes, times in seconds.
    """

    def __init__(
        self,
        records: Sequence[str],
        directory: str | os.PathLike[str] | None = None,
        *,
        runs: Sequence[_weftline.Run] | None = None,
    ) -> None:
        self._records = list(records)
        self._table: _weftline.Table | None = None
        self.directory = None if directory is None else pathlib.Path(directory)
        # Where the time series are: in a directory, at those places, or in the runs.
        self._kept = None if directory is None else (directory, range(len(self._records)))
        self._runs = runs
        # Whether these were sent from a process that has their runs still.
        self._left_behind = False

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Results:
        """The results in a directory that `weftline` or `Sweep.run` wrote."""
        return cls(_weftline.read_runs(directory), directory)

    @property
    def table(self) -> _weftline.Table:
        """A row for each run."""
        if self._table is None:
            self._table = _weftline.table(self._records)
        return self._table

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.table.column_names

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.table.column(key)
        if isinstance(key, slice):
            part = Results(self._records[key], runs=self._runs and self._runs[key])
            part._kept = self._kept and (self._kept[0], self._kept[1][key])
            part._left_behind = self._left_behind
            return part
        return json.loads(self._records[key])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(json.loads, self._records)

    def __add__(self, other: Results) -> Results:
        """Both, as of a sweep and of the same with more seeds. Without time series.

        Raises `ValueError` where a run is in both: it counts once."""
        if not isinstance(other, Results):
            return NotImplemented
        seen = {_identity(run) for run in self}
        for run in other:
            if _identity(run) in seen:
                raise ValueError(f"the run {run['scenario']}, {run['scheme']}, {run['congestion']}, seed {run['seed']} "
                                 "is in both, and counts once; leave it out of one of them")
        return Results([*self._records, *other._records])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """As a pandas data frame; needs pandas and pyarrow."""
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """As a polars data frame; needs polars."""
        return self.table.to_polars()

    @property
    def series(self) -> _weftline.Table:
        """The time series of all runs, long: `time_s`, `run` (its place among these), `path` (empty
        for the whole), `metric`, `value`. Empty if none were kept, as by default."""
        if self._kept is not None:
            table = _weftline.read_series(*self._kept)
            if table is not None:
                return table
        if self._left_behind:
            raise ValueError("the time series stayed in the process that made the runs; make them by Sweep.run, "
                             "with series=True, into a directory that both see")
        return _weftline.series_of(self._runs or [])

    def ratios(self) -> list[dict[str, Any]]:
        """`ratios(self)`."""
        return ratios(self)

    def report(self, file: str | os.PathLike[str] | None = None) -> pathlib.Path:
        """Writes the page that `weftline report` writes, and gives its path."""
        return pathlib.Path(_weftline.report(self._directory(), file))

    def _directory(self) -> pathlib.Path:
        if self.directory is None:
            raise ValueError("these results are no directory's, or a part of one's; use Sweep.run, "
                             "which writes one, or Results.load")
        return self.directory

    def __getstate__(self) -> dict[str, Any]:
        # The series of runs stay behind, those of a directory are there.
        left_behind = self._left_behind or bool(self._runs)
        return {**self.__dict__, "_table": None, "_runs": None, "_left_behind": left_behind}

    def __repr__(self) -> str:
        return f"<Results: {len(self)} runs" + (f" in {self.directory}>" if self.directory else ">")


class Intervals(list[dict[str, Any]]):
    """Means with intervals, a dictionary for each group; printed, a table."""

    def __str__(self) -> str:
        def shown(value: Any) -> str:
            return f"{value:.4g}" if isinstance(value, float) else str(value)

        names = list(self[0]) if self else []
        rows = [names, *([shown(row[name]) for name in names] for row in self)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(names))]
        lines = ("  ".join(cell.rjust(w) for cell, w in zip(row, widths)) for row in rows)
        return "\n".join(lines)


def ci95(frame: Any, value: str, by: str | Sequence[str] = ()) -> Intervals:
    """Mean and half-width of its 95 % interval (Student's t) of the column `value` in each group of
    equal values in `by`. `frame` is `Results` or a data frame. One run alone has no interval:
    `half_width` is `None` then. Rows without a value are left out, and runs that do not count: that
    did not complete, have an error, or whose emulator was late.
    """
    by = [by] if isinstance(by, str) else list(by)
    values = _column(frame, value)
    # What is not there is None, or in a frame of pandas not a number, which is no other's equal.
    keys = [[one if one == one else None for one in _column(frame, name)] for name in by]
    counts = _counts(frame, len(values))
    groups: dict[tuple[Any, ...], list[float]] = {}
    for place, one in enumerate(values):
        if one is not None and one == one and counts[place]:
            groups.setdefault(tuple(key[place] for key in keys), []).append(float(one))
    result = Intervals()
    for key, group in groups.items():
        interval = _weftline.mean_ci95(group)
        if interval is not None:
            mean, half_width, count = interval
            result.append(
                {**dict(zip(by, key)), "mean": mean, "half_width": half_width, "n": count}
            )
    return result


def ratios(results: Results) -> list[dict[str, Any]]:
    """For each run of as much as goes whose paths also ran alone (`single:*`, same case and seed): its
    place, scheme, and goodput ÷ the sum of the paths (`to_sum`) and ÷ the best of them (`to_best`)."""
    found = _weftline.ratios(results._records)
    scheme: Mapping[int, str] = dict(enumerate(results["scheme"]))
    return [
        {"run": run, "scheme": scheme[run], "to_sum": to_sum, "to_best": to_best}
        for run, to_sum, to_best in found
    ]


def _identity(run: Mapping[str, Any]) -> str:
    """What tells a run from others."""
    keys = ("world", "scenario", "workload", "scheme", "congestion", "tls", "seed", "case", "duration_s", "warmup_s")
    return json.dumps([run.get(key) for key in keys], sort_keys=True)


def _counts(frame: Any, rows: int) -> list[bool]:
    """Which rows are of runs that are results."""
    there = set(_names(frame))
    counts = [True] * rows
    for name, good in (("completed", True), ("error", None), ("emulator.valid", True)):
        if name in there:
            # What is not there is None, or in a frame of pandas not a number.
            column = _column(frame, name)
            counts = [c and (v is None or v != v or v == good) for c, v in zip(counts, column)]
    return counts


def _names(frame: Any) -> list[str]:
    names = getattr(frame, "column_names", None)
    return list(names if names is not None else frame.columns)


def _column(frame: Any, name: str) -> list[Any]:
    column = frame[name]
    listed = getattr(column, "to_pylist", None)
    return listed() if listed is not None else list(column)
