"""Sweeps: many runs from one description, into a directory that can be gone on with."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from . import _weftline
from ._own import (
    ControlLike,
    OwnControl,
    OwnScheme,
    SchemeLike,
    control_part,
    is_other,
    scheme_part,
)
from ._results import Results
from ._scenario import Scenario, ScenarioLike, Trace, name_trace, portable
from ._toml import dump
from ._weftline import ScenarioError

# What is not always needed is imported where it is: together it takes longer than the whole package.
if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

Progress = bool | Callable[[int, int], object]


# The record of a run and the rows of its time series.
Done = tuple[str, str]
Part = list[Done]


class Cluster(Protocol):
    """Whatever takes parts of a sweep elsewhere, such as `Ray`."""

    def map_parts(
        self, bundle: Bundle, places: Sequence[int], series: bool, take: Callable[[Part], None]
    ) -> None:
        """Does the runs at `places` and hands the parts over in the order of `places`."""


class WorkerError(RuntimeError):
    """A worker of an executor or cluster that cannot make these runs: it has another version, or
    computes something else."""


@functools.cache
def canary() -> str:
    """The digest of a short run, of some milliseconds: what computes the same has the same."""
    short = Scenario.load("bond").replace(duration="100ms", warmup="0s")
    run = _weftline.run(short._inner, "earliest", "cubic", 1, False, [])
    digest: str = json.loads(run.json)["digest"]
    return digest


class Bundle:
    """A sweep with all that it is made of, to be sent to another process: what has become of its files
    meanwhile does not matter. Its classes are sent as `pickle` does, by name, and Ray sends those of the
    script itself whole."""

    def __init__(
        self,
        name: str,
        text: str,
        files: Mapping[str, str],
        schemes: Mapping[str, OwnScheme] | None = None,
        controls: Mapping[str, OwnControl] | None = None,
    ) -> None:
        self.name, self.text, self.files = name, text, dict(files)
        self.schemes, self.controls = dict(schemes or {}), dict(controls or {})
        self.version, self.canary = _weftline.__version__, ""

    @functools.cached_property
    def key(self) -> str:
        """What tells it from others."""
        import hashlib

        said = json.dumps([self.name, self.text, self.files, self.version, self.canary])
        return hashlib.sha256(said.encode()).hexdigest()

    def prepared(self) -> Bundle:
        """The same, to be sent: with what a worker is tried by."""
        self.canary = canary()
        return self

    def parts(self) -> list[_weftline.Part]:
        """Its classes, under the names that its text has for them.

        Raises `WorkerError` where this process has other classes of these names."""
        for name, thing in {**self.schemes, **self.controls}.items():
            if is_other(thing, name):
                raise WorkerError(f"{_here()} has another {name.partition('@')[0].removeprefix('py:')} than "
                                  "this sweep; give all the same source")
        schemes = (scheme_part(scheme, name) for name, scheme in self.schemes.items())
        controls = (control_part(control, name) for name, control in self.controls.items())
        return [part for part in (*schemes, *controls) if part]

    def open(self) -> _weftline.Sweep:
        """Reads the sweep again.

        Raises `WorkerError` where another version of the package does, or one that computes another
        thing: its runs would be others."""
        where = _here()
        self.parts()
        if self.version != _weftline.__version__:
            raise WorkerError(f"{where} has weftline {_weftline.__version__}, and this sweep is from "
                              f"{self.version}; install the same on all machines")
        if self.canary and self.canary != canary():
            raise WorkerError(f"{where} has weftline {self.version} as well, and its runs are others "
                              f"(digest {canary()}, here {self.canary}); leave it out, and report it")
        return _weftline.Sweep(self.name, self.text, self.files)

    def failed(self, place: int, error: str) -> Done:
        """What stands for a run that cannot be made for that reason."""
        return self.open().failed(place, error), ""


def _here() -> str:
    import platform

    return f"the worker {os.getpid()} on {platform.node()}"


class Sweep:
    """A grid over schemes, congestion controls, seeds and any keys of scenarios, and random draws of
    such keys: the keys of a sweep file (docs/scenarios.md).

        wl.Sweep("demo", scheme=["earliest", "min-rtt", "single:*"], seed=range(1, 11),
                 set={"path.wifi.loss": [0, 0.001, 0.01]})

    A value may be a `csv(…)` or `mahimahi(…)`. `single:*` stands for each path alone. Schemes and congestion controls may be classes of your own,
    as for `run`; other versions of a class are other schemes, and what was made with one is not gone on
    with by another.
    """

    def __init__(
        self,
        scenario: ScenarioLike | Sequence[ScenarioLike],
        *,
        scheme: SchemeLike | Sequence[SchemeLike],
        congestion: ControlLike | Sequence[ControlLike] = "cubic",
        seed: int | Sequence[int] = 1,
        set: Mapping[str, Any] | None = None,
        name: str = "sweep",
        **keys: Any,
    ) -> None:
        files: dict[str, str] = {}
        many = isinstance(scenario, Sequence) and not isinstance(scenario, str)
        scenarios: list[ScenarioLike] = list(scenario) if many else [scenario]  # type: ignore[arg-type,list-item]
        schemes: dict[str, OwnScheme] = {}
        controls: dict[str, OwnControl] = {}
        swept = _Swept(scenarios)
        keys = {key: swept.named(value) for key, value in keys.items()}
        set = {key: swept.named(value) for key, value in set.items()} if set else None
        document: dict[str, Any] = {
            "scenario": [_file(one, files, swept.traces) for one in scenarios],
            "scheme": _schemes(_named(scheme, scheme_part, schemes), scenarios),
            "congestion": congestion if isinstance(congestion, str)
            else _named(congestion, control_part, controls),
            "seed": seed,
            **keys,
        }
        if set:
            document["set"] = set
        self._bundle = Bundle(name, dump(document), files, schemes, controls)
        self._inner = self._bundle.open()

    @classmethod
    def load(cls, name_or_path: str | os.PathLike[str]) -> Sweep:
        """The built-in sweep of that name, or the one in that file."""
        sweep = cls.__new__(cls)
        sweep._inner = _weftline.Sweep.find(os.fspath(name_or_path))
        files = dict(sweep._inner.files())
        sweep._bundle = Bundle(sweep._inner.name, sweep._inner.text, files)
        return sweep

    @classmethod
    def parse(cls, name: str, text: str, files: Mapping[str, str] | None = None) -> Sweep:
        """The sweep that a TOML text says, with the texts of the files that it names."""
        sweep = cls.__new__(cls)
        sweep._bundle = Bundle(name, text, files or {})
        sweep._inner = sweep._bundle.open()
        return sweep

    @property
    def name(self) -> str:
        """Its name."""
        return self._inner.name

    @property
    def text(self) -> str:
        """Its TOML."""
        return self._inner.text

    def save(self, directory: str | os.PathLike[str]) -> pathlib.Path:
        """Writes the sweep, its scenarios and their traces there, for `weftline sim sweep` and
        `weftline lab sweep`. Returns the sweep's file."""
        folder = pathlib.Path(directory)
        file = folder / f"{self.name}.toml"
        for path, text in [(file, self.text), *((folder / name, text) for name, text in self._bundle.files.items())]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return file

    def __len__(self) -> int:
        """How many runs it makes."""
        return len(self._inner)

    def run(
        self,
        directory: str | os.PathLike[str],
        *,
        progress: Progress = False,
        threads: int | None = None,
        series: bool | None = None,
        on: Executor | Cluster | None = None,
    ) -> Results:
        """Does all runs, on all cores or `on` an executor or cluster, into `directory`. Runs that are
        there and count are not done again; those of another sweep are refused. What is written is a
        prefix, in the same bytes wherever the runs were made, and `weftline sim sweep` goes on with
        it as this does. `progress` is a function of how many are done and how many there are, or
        `True` for a line on standard error. A run that failed is a result: its `error` says why, and
        it is made again the next time.

        Raises `ValueError` for a directory with other results, and `ScenarioError`, after all others
        are done, for cases that could not be built.
        """
        if not (isinstance(progress, bool) or callable(progress)):
            raise TypeError(f"progress is True, False, or a function of how many are done and how many there are, "
                            f"not {progress!r}")
        if on is not None and threads is not None:
            raise ValueError("threads are this machine's, and on says where else the runs are done; give one of them")
        cluster = None if on is None else _cluster(on)
        series = self._inner.series if series is None else series
        writer = self._inner.writer(directory, series)
        try:
            places, refused = self._inner.pending(writer)
            told = _Told(progress, len(self), len(self) - len(places))

            def add(record: str, rows: str) -> None:
                writer.add(record, rows)
                told.one()

            if cluster is None:
                self._inner.run(
                    places, self._bundle.parts(), threads, series,
                    lambda run: add(*_done(run, series)))
            else:
                def take(part: Part) -> None:
                    for record, rows in part:
                        add(record, rows)

                cluster.map_parts(self._bundle.prepared(), places, series, take)
        finally:
            writer.finish()
        results = Results.load(directory)
        if refused:
            raise _refused(refused)
        return results

    def __repr__(self) -> str:
        return f"<Sweep {self.name}: {len(self)} runs>"

    def __getstate__(self) -> Bundle:
        return self._bundle

    def __setstate__(self, bundle: Bundle) -> None:
        self._bundle, self._inner = bundle, bundle.open()


# The sweep that a worker read last, by its key: it gets many parts of one.
_opened: tuple[str, _weftline.Sweep, list[_weftline.Part]] | None = None


def run_part(bundle: Bundle, places: Sequence[int], series: bool) -> Part:
    """Some runs of a sweep, on one thread: what an executor's worker does."""
    global _opened
    # Another thread of this worker may do parts of another sweep.
    opened = _opened
    if opened is None or opened[0] != bundle.key:
        _opened = opened = bundle.key, bundle.open(), bundle.parts()
    part: Part = []
    opened[1].run(places, opened[2], 1, series, lambda run: part.append(_done(run, series)))
    return part


def timed_part(bundle: Bundle, places: Sequence[int], series: bool) -> tuple[Part, float]:
    """The same, with the seconds that it took."""
    began = time.monotonic()
    part = run_part(bundle, places, series)
    return part, time.monotonic() - began


def _done(run: _weftline.Run, series: bool) -> Done:
    return run.json, run.rows() if series else ""


# A part takes about that long: shorter ones cost their start, longer ones lose more with a worker.
_PART_S = 5.0
_MOST_RUNS = 1000
# As many workers are kept busy where nobody says how many there are.
_MANY_WORKERS = 256


def size_of_part(part: Part, took_s: float) -> int:
    """How many runs the next parts have, after one that took so long."""
    return max(1, min(_MOST_RUNS, int(_PART_S * len(part) / max(took_s, 1e-6))))


class _OnExecutor:
    """Parts of a sweep on any executor of `concurrent.futures`."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def map_parts(
        self, bundle: Bundle, places: Sequence[int], series: bool, take: Callable[[Part], None]
    ) -> None:
        # Those of other machines do not say how many workers they have. How large parts are is not known yet.
        most = 4 * (getattr(self._executor, "_max_workers", None) or _MANY_WORKERS)
        ahead = min(most, 4 * (os.cpu_count() or 1))
        size, next_place = 1, 0
        waiting: list[Future[tuple[Part, float]]] = []
        try:
            while next_place < len(places) or waiting:
                while next_place < len(places) and len(waiting) < ahead:
                    some = list(places[next_place : next_place + size])
                    waiting.append(self._executor.submit(timed_part, bundle, some, series))
                    next_place += len(some)
                part, took_s = waiting.pop(0).result()
                size, ahead = size_of_part(part, took_s), most
                take(part)
        finally:
            for future in waiting:
                future.cancel()


def _cluster(on: Executor | Cluster) -> Cluster:
    """Where the runs are done."""
    from concurrent.futures import Executor

    if isinstance(on, Executor):
        return _OnExecutor(on)
    if isinstance(on, type) or not callable(getattr(on, "map_parts", None)):
        raise TypeError(f"on is wl.Ray(), or an executor of concurrent.futures such as ProcessPoolExecutor(), not {on!r}")
    return on


class _Told:
    """Who wants to know how far it is."""

    def __init__(self, progress: Progress, total: int, done: int) -> None:
        self._tell = progress if callable(progress) else None
        self._print = progress is True
        self._total, self._done = total, done

    def one(self) -> None:
        self._done += 1
        if self._tell is not None:
            self._tell(self._done, self._total)
        if self._print:
            import sys

            end = "\n" if self._done == self._total else ""
            print(f"\r{self._done}/{self._total} runs", end=end, file=sys.stderr, flush=True)


def merge(directory: str | os.PathLike[str]) -> Results:
    """Puts the parts of a sweep in a directory together, as `weftline sim merge` does: those that
    `weftline sim sweep --part` has made. Raises `RuntimeError` if one has not made all of its runs; what
    is there up to that is merged."""
    runs, total, missing, refused = _weftline.merge(directory)
    if missing is not None:
        raise RuntimeError(f"{runs} of {total} runs are merged; part {missing} of {os.fspath(directory)} "
                           "has not made all of its runs")
    if refused:
        raise _refused(refused)
    return Results.load(directory)


def _refused(cases: Sequence[str]) -> ScenarioError:
    """What is said of cases that cannot be built; of which file and line is said in its words."""
    reason = f"{len(cases)} cases cannot be built, the first: {cases[0]}"
    error = ScenarioError(reason)
    error.file, error.line, error.reason = None, None, reason
    return error


class _Swept:
    """The traces that a sweep's keys name, which each scenario has beside it."""

    def __init__(self, scenarios: Sequence[ScenarioLike]) -> None:
        self.traces: dict[str, str] = {}
        self._scenarios = scenarios
        self._taken: dict[str, str] | None = None

    def named(self, value: Any) -> Any:
        """The value with tables in the place of its traces."""
        if isinstance(value, Trace):
            table = name_trace(value, self._names())
            self.traces[table["file"]] = value.text
            return table
        if isinstance(value, Mapping):
            return {key: self.named(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.named(part) for part in value]
        return value

    def _names(self) -> dict[str, str]:
        """The traces that scenarios have themselves; no text is that of a name that two have."""
        if self._taken is None:
            self._taken = {}
            for scenario in self._scenarios:
                one = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
                for name, text in portable(one)[1].items():
                    self._taken[name] = text if self._taken.get(name, text) == text else ""
        return self._taken


def _file(scenario: ScenarioLike, files: dict[str, str], swept: Mapping[str, str]) -> str:
    """What the sweep calls a scenario; its texts, and those of the traces that are swept, go into `files`."""
    if isinstance(scenario, str) and scenario in dict(_weftline.scenarios()) and not swept:
        return scenario
    one = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
    text, traces = portable(one)
    traces.update(swept)
    # A folder for each: scenarios may have traces of one name.
    file = f"{one.name}/{one.name}.toml"
    files[file] = text
    files.update({f"{one.name}/{trace}": content for trace, content in traces.items()})
    return file


def _named(
    things: Any, part_of: Callable[[Any], _weftline.Part | None], own: dict[str, Any]
) -> list[str]:
    """The names of schemes or congestion controls, of which one may be given alone; the classes among
    them go into `own`."""
    names: list[str] = []
    for thing in things if isinstance(things, Sequence) and not isinstance(things, str) else [things]:
        part = part_of(thing)
        if part is not None:
            own[part.name] = thing
        names.append(part.name if part else thing)
    return names


def _schemes(schemes: Sequence[str], scenarios: Sequence[ScenarioLike]) -> list[str]:
    """With each path's `single:` in the place of `single:*`."""
    named: list[str] = []
    for scheme in schemes:
        if scheme != "single:*":
            named.append(scheme)
            continue
        for scenario in scenarios:
            one = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
            named += [f"single:{path}" for path in one.paths]
    return list(dict.fromkeys(named))

