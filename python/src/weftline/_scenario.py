"""Scenarios: over which paths what is sent."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _weftline
from ._toml import dump


class Trace(NamedTuple):
    """A rate that a file gives; made by `csv` or `mahimahi`."""

    file: str
    format: str
    text: str


def csv(file: str | os.PathLike[str]) -> Trace:
    """A rate trace with the header `time_s,rate_mbps` and a row for each change."""
    return _trace(file, "csv")


def mahimahi(file: str | os.PathLike[str]) -> Trace:
    """A rate trace with a line for each 1500 bytes that may leave: the time in milliseconds."""
    return _trace(file, "mahimahi")


def _trace(file: str | os.PathLike[str], kind: str) -> Trace:
    try:
        with open(file, encoding="utf-8") as opened:
            return Trace(os.path.basename(os.fspath(file)), kind, opened.read())
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(file)} is no text in UTF-8 ({error}); save it as one") from None


class Path:
    """A path of a scenario: its name and the keys of `[[path]]` (docs/scenarios.md).

    `rate` is a text such as `"50Mbps"`; or `trace` a `csv(…)`, a `mahimahi(…)`, or a table with a
    generator. `delay` is one way.
    """

    def __init__(self, name: str, **keys: Any) -> None:
        self.keys: dict[str, Any] = {"name": name, **keys}

    def __repr__(self) -> str:
        return f"Path({', '.join(f'{key}={value!r}' for key, value in self.keys.items())})"


class Scenario:
    """A scenario: its name, paths, and the keys of a scenario file (docs/scenarios.md).

    `Scenario.load` takes a built-in name or a file. What is wrong is a `ScenarioError` with the
    words that the program has for it.
    """

    def __init__(
        self,
        name: str,
        *,
        paths: Sequence[Path | Mapping[str, Any]],
        duration: str = "20s",
        workload: str | Mapping[str, Any] = "bulk",
        **keys: Any,
    ) -> None:
        traces: dict[str, str] = {}
        kind = {"kind": workload} if isinstance(workload, str) else workload
        document = {
            "name": name,
            "duration": duration,
            **keys,
            "workload": kind,
            "path": [_path(path, traces) for path in paths],
        }
        self._inner = _weftline.Scenario(f"<scenario {name}>", dump(document), traces)

    @classmethod
    def load(cls, name_or_path: str | os.PathLike[str]) -> Scenario:
        """The built-in scenario of that name, or the one in that file."""
        return cls._of(_weftline.Scenario.find(os.fspath(name_or_path)))

    @classmethod
    def parse(cls, text: str, traces: Mapping[str, str] | None = None) -> Scenario:
        """The scenario that a TOML text says, with the texts of its trace files by name."""
        return cls._of(_weftline.Scenario("<scenario>", text, dict(traces or {})))

    @classmethod
    def _of(cls, inner: _weftline.Scenario) -> Scenario:
        scenario = cls.__new__(cls)
        scenario._inner = inner
        return scenario

    def replace(self, **keys: Any) -> Scenario:
        """The same with other values of some keys; an underscore twice leads into a table:
        `scenario.replace(duration="5s", scheduler__window="4MiB")`. A path is replaced by its name:
        `scenario.replace(path__wifi__loss=0.01)`, and `paths` are all of them. A trace takes the place of
        a rate and the other way round; `None` removes a key."""
        import tomllib

        document = tomllib.loads(self.text)
        traces = self.traces
        for key, value in keys.items():
            if key == "paths":
                document["path"] = [_path(path, traces) for path in value]
                continue
            value = _with_traces(value, traces)
            *tables, last = key.split("__")
            table: Any = document
            for place, part in enumerate(tables):
                table = _step(table, part, under_path=place == 1 and tables[0] == "path")
            if isinstance(table, list):
                raise TypeError(f"{key}: a path's keys are replaced, path__NAME__KEY=…, or all paths, paths=[…]")
            if last == "workload" and isinstance(value, str):
                value = {"kind": value}
            if value is None:
                table.pop(last, None)
            else:
                table.pop({"trace": "rate", "rate": "trace"}.get(last), None)
                table[last] = value
        return Scenario.parse(dump(document), traces)

    @property
    def name(self) -> str:
        """Its name in records."""
        return self._inner.name

    @property
    def about(self) -> str:
        """What it is, in one line; empty if it does not say."""
        return self._inner.about

    @property
    def text(self) -> str:
        """Its TOML."""
        return self._inner.text

    @property
    def duration_s(self) -> float:
        """How long the workload runs, in seconds."""
        return self._inner.duration_s

    @property
    def paths(self) -> list[str]:
        """The names of its paths."""
        return self._inner.paths

    @property
    def traces(self) -> dict[str, str]:
        """The texts of its trace files by the names that it has for them."""
        return dict(self._inner.traces())

    def __repr__(self) -> str:
        return f"<Scenario {self.name}: {', '.join(self.paths)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Scenario.parse, (self.text, self.traces)


ScenarioLike = Scenario | str | os.PathLike[str]


def scenario_of(scenario: ScenarioLike) -> Scenario:
    """A scenario, by name, file or itself."""
    return scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)


def portable(scenario: Scenario) -> tuple[str, dict[str, str]]:
    """Text and traces, with names for the traces that stay within a folder."""
    from pathlib import PurePosixPath

    traces: dict[str, str] = {}
    names: dict[str, str] = {}
    for index, (name, text) in enumerate(scenario.traces.items()):
        path = PurePosixPath(name)
        inside = not path.is_absolute() and ".." not in path.parts
        names[name] = name if inside else f"trace{index}-{path.name}"
        traces[names[name]] = text
    if all(old == new for old, new in names.items()):
        return scenario.text, traces
    import tomllib

    document = tomllib.loads(scenario.text)
    for path in document["path"]:
        for table in (path, path.get("up", {})):
            trace = table.get("trace", {})
            if "file" in trace:
                trace["file"] = names[trace["file"]]
    return dump(document), traces


def _path(path: Path | Mapping[str, Any], traces: dict[str, str]) -> dict[str, Any]:
    keys = path.keys if isinstance(path, Path) else path
    if not isinstance(keys, Mapping):
        raise TypeError(f"a path is a wl.Path(name, rate=…, delay=…) or a table of its keys, not {path!r}")
    return {key: _with_traces(value, traces) for key, value in keys.items()}


def name_trace(trace: Trace, traces: dict[str, str]) -> dict[str, str]:
    """What a scenario has in the place of a trace, whose text gets a name of its own in `traces`."""
    name, number = trace.file, 0
    while traces.setdefault(name, trace.text) != trace.text:
        number += 1
        name = f"{number}-{trace.file}"
    return {"file": name, "format": trace.format}


def _with_traces(value: Any, traces: dict[str, str]) -> Any:
    if isinstance(value, Trace):
        return name_trace(value, traces)
    if isinstance(value, Mapping):
        return {key: _with_traces(part, traces) for key, part in value.items()}
    return value


def _step(table: Any, part: str, *, under_path: bool) -> Any:
    if not under_path:
        return table.setdefault(part, {})
    found = [path for path in table if path.get("name") == part]
    if not found:
        known = ", ".join(path["name"] for path in table)
        raise KeyError(f"there is no path '{part}'; there are: {known}")
    return found[0]
