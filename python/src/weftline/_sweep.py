"""Sweeps: many runs from one description, into a directory that can be gone on with."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Protocol

from . import _weftline
from ._results import Results
from ._scenario import Scenario, ScenarioLike, portable
from ._toml import dump
from ._weftline import ScenarioError

Progress = bool | Callable[[int, int], object]


class Cluster(Protocol):
    """Whatever takes parts of a sweep elsewhere, such as `Ray`."""

    def map_parts(
        self, bundle: Bundle, places: Sequence[int], series: bool, take: Callable[[Part], None]
    ) -> None:
        """Does the runs at `places` and hands the parts over in the order of `places`."""


class Bundle:
    """A sweep with all that it is made of, to be sent to another process."""

    def __init__(self, name: str, text: str, files: Mapping[str, str]) -> None:
        self.name, self.text, self.files = name, text, dict(files)
        self.version = _weftline.__version__

    def open(self) -> _weftline.Sweep:
        """Reads the sweep again.

        Raises `RuntimeError` where another version of the package does: its runs would be others."""
        if self.version != _weftline.__version__:
            raise RuntimeError(f"this sweep is from weftline {self.version}, and this is "
                               f"{_weftline.__version__}; install the same on all machines")
        return _read(self.name, self.text, self.files)


# Records with their time series, in the order of the places that were asked for.
Part = list[tuple[str, list[tuple[float, str, str, float]]]]


class Sweep:
    """A grid over schemes, congestion controls, seeds and any keys of scenarios, and random draws of
    such keys: the keys of a sweep file (docs/scenarios.md).

        wl.Sweep("demo", scheme=["earliest", "min-rtt", "single:*"], seed=range(1, 11),
                 set={"path.wifi.loss": [0, 0.001, 0.01]})

    `single:*` stands for each path alone.
    """

    def __init__(
        self,
        scenario: ScenarioLike | Sequence[ScenarioLike],
        *,
        scheme: str | Sequence[str],
        congestion: str | Sequence[str] = "cubic",
        seed: int | Sequence[int] = 1,
        set: Mapping[str, Any] | None = None,
        name: str = "sweep",
        **keys: Any,
    ) -> None:
        files: dict[str, str] = {}
        many = isinstance(scenario, Sequence) and not isinstance(scenario, str)
        scenarios: list[ScenarioLike] = list(scenario) if many else [scenario]  # type: ignore[arg-type,list-item]
        document: dict[str, Any] = {
            "scenario": [_file(one, files) for one in scenarios],
            "scheme": _schemes([scheme] if isinstance(scheme, str) else scheme, scenarios),
            "congestion": congestion,
            "seed": seed,
            **keys,
        }
        if set:
            document["set"] = set
        self._bundle = Bundle(name, dump(document), files)
        self._inner = self._bundle.open()

    @classmethod
    def load(cls, name_or_path: str | os.PathLike[str]) -> Sweep:
        """The built-in sweep of that name, or the one in that file."""
        sweep = cls.__new__(cls)
        sweep._inner = _weftline.Sweep.find(os.fspath(name_or_path))
        files = dict(sweep._inner.files())
        sweep._bundle = Bundle(sweep._inner.name, sweep._inner.text, files)
        return sweep

    @property
    def name(self) -> str:
        """Its name."""
        return self._inner.name

    @property
    def text(self) -> str:
        """Its TOML."""
        return self._inner.text

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
        series = self._inner.series if series is None else series
        writer = self._inner.writer(directory, series)
        try:
            places, refused = self._inner.pending(writer.done())
            told = _Told(progress, len(self), len(self) - len(places))

            def add(json: str, samples: list[tuple[float, str, str, float]]) -> None:
                writer.add(json, samples)
                told.one()

            if on is None:
                self._inner.run(
                    places, threads, series,
                    lambda run: add(run.json, run.samples() if series else []))
            else:
                cluster = _OnExecutor(on) if isinstance(on, Executor) else on

                def take(part: Part) -> None:
                    for json, samples in part:
                        add(json, samples)

                cluster.map_parts(self._bundle, places, series, take)
        finally:
            writer.finish()
        results = Results.load(directory)
        if refused:
            raise ScenarioError(f"{len(refused)} cases cannot be built, the first: {refused[0]}")
        return results

    def __repr__(self) -> str:
        return f"<Sweep {self.name}: {len(self)} runs>"

    def __getstate__(self) -> Bundle:
        return self._bundle

    def __setstate__(self, bundle: Bundle) -> None:
        self._bundle, self._inner = bundle, bundle.open()


def run_part(bundle: Bundle, places: Sequence[int], series: bool) -> Part:
    """Some runs of a sweep, on one thread: what an executor's worker does."""
    part: Part = []
    take: Callable[[_weftline.Run], object] = lambda run: part.append(
        (run.json, run.samples() if series else [])
    )
    bundle.open().run(places, 1, series, take)
    return part


class _OnExecutor:
    """Parts of a sweep on any executor of `concurrent.futures`."""

    # As many runs as are lost with a worker, and as wait for one that is slow.
    RUNS = 10

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def map_parts(
        self, bundle: Bundle, places: Sequence[int], series: bool, take: Callable[[Part], None]
    ) -> None:
        ahead = 4 * (os.cpu_count() or 1)
        waiting = []
        try:
            for start in range(0, len(places), self.RUNS):
                part = list(places[start : start + self.RUNS])
                waiting.append(self._executor.submit(run_part, bundle, part, series))
                if len(waiting) >= ahead:
                    take(waiting.pop(0).result())
            while waiting:
                take(waiting.pop(0).result())
        finally:
            for future in waiting:
                future.cancel()


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


def _read(name: str, text: str, files: Mapping[str, str]) -> _weftline.Sweep:
    """Reads a sweep whose files are texts: from a folder that has them for as long as that takes."""
    with tempfile.TemporaryDirectory(prefix="weftline-") as folder:
        root = pathlib.Path(folder)
        for file, content in {**files, f"{name}.toml": text}.items():
            path = root / file
            if not path.resolve().is_relative_to(root.resolve()):
                raise ValueError(f"the file {file} is outside of the folder of the sweep; copy it "
                                 "into it")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        try:
            return _weftline.Sweep.find(str(root / f"{name}.toml"))
        except ScenarioError as error:
            # The folder is nobody's.
            wrong = ScenarioError(str(error).replace(f"{root}/", ""))
            wrong.file = error.file and error.file.replace(f"{root}/", "")
            wrong.line, wrong.reason = error.line, error.reason
            raise wrong from None


def _file(scenario: ScenarioLike, files: dict[str, str]) -> str:
    """What the sweep calls a scenario; its texts go into `files`."""
    if isinstance(scenario, str) and scenario in dict(_weftline.scenarios()):
        return scenario
    one = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
    text, traces = portable(one)
    # A folder for each: scenarios may have traces of one name.
    file = f"{one.name}/{one.name}.toml"
    files[file] = text
    files.update({f"{one.name}/{trace}": content for trace, content in traces.items()})
    return file


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

