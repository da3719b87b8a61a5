"""The compiled part: use the package `weftline`."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final, final

__all__ = [
    "Ack",
    "Loss",
    "Part",
    "PathView",
    "Run",
    "Scenario",
    "ScenarioError",
    "Simulation",
    "Sweep",
    "Table",
    "View",
    "Writer",
    "__version__",
    "advance_all",
    "congestion_controls",
    "link_discards",
    "mean_ci95",
    "merge",
    "ratios",
    "read_runs",
    "read_series",
    "record_keys",
    "report",
    "run",
    "run_all",
    "scenarios",
    "schemes",
    "series_of",
    "sweeps",
    "table",
    "vr_gains",
]

__version__: Final[str]

class ScenarioError(ValueError):
    file: str | None
    line: int | None
    reason: str

@final
class Scenario:
    def __new__(cls, file: str, text: str, traces: dict[str, str]) -> Scenario: ...
    @staticmethod
    def find(name_or_path: str) -> Scenario: ...
    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def paths(self) -> list[str]: ...
    def traces(self) -> list[tuple[str, str]]: ...

@final
class Table:
    @property
    def column_names(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def column(self, name: str) -> list[Any]: ...
    def to_pandas(self) -> Any: ...
    def to_polars(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Run:
    @property
    def json(self) -> str: ...
    @property
    def series(self) -> Table: ...
    def rows(self) -> str: ...

@final
class Sweep:
    def __new__(cls, name: str, text: str, files: dict[str, str]) -> Sweep: ...
    @staticmethod
    def find(name_or_path: str) -> Sweep: ...
    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def series(self) -> bool: ...
    def __len__(self) -> int: ...
    def files(self) -> list[tuple[str, str]]: ...
    def pending(self, writer: Writer) -> tuple[list[int], list[str]]: ...
    def case(self, place: int) -> Scenario: ...
    def failed(self, place: int, error: str) -> str: ...
    def run(
        self,
        places: Sequence[int],
        parts: Sequence[Part],
        threads: int | None,
        series: bool,
        take: Callable[[Run], object],
    ) -> None: ...
    def writer(self, directory: str | PathLike[str], series: bool) -> Writer: ...

@final
class Part:
    """A class in the place of a scheduler or congestion control, or what is steered from outside, under
    the name that records have for it: `kind` is `picker`, `scheduler`, `control`, `split` or `steered`."""

    def __new__(
        cls,
        name: str,
        kind: str,
        class_: Callable[..., object] | None = None,
        /,
        *,
        by_segment: bool = False,
    ) -> Part: ...
    @property
    def name(self) -> str: ...

@final
class PathView:
    """A path as a scheduler sees it."""

    @property
    def index(self) -> int:
        """What `pick` gives back."""
    @property
    def name(self) -> str: ...
    @property
    def has_room(self) -> bool:
        """Whether it may be given something now. One that recovers from a timeout may not, unless all
        do."""
    @property
    def is_usable(self) -> bool:
        """Whether it is neither stalled nor a backup that stands by."""
    @property
    def room(self) -> int:
        """How many bytes it may be given now."""
    @property
    def chunk(self) -> int:
        """How many bytes it is given at once, as a rule."""
    @property
    def cwnd(self) -> int:
        """The congestion window in whole segments."""
    @property
    def cwnd_bytes(self) -> int: ...
    @property
    def queued_bytes(self) -> int:
        """Bytes in its socket, unacknowledged or unsent."""
    @property
    def srtt_s(self) -> float:
        """Smoothed round-trip time; 0.1 before the first measurement."""
    @property
    def min_rtt_s(self) -> float: ...
    @property
    def rate_mbps(self) -> float:
        """The rate at which it delivers."""
    @property
    def lowest_foreign(self) -> tuple[int, int] | None:
        """The lowest range that others carry and it has not sent (`wl.Scheduler` only)."""
    @property
    def highest_foreign(self) -> tuple[int, int] | None: ...

@final
class View:
    """Everything that a scheduler sees. Ranges are offsets of the stream in bytes."""

    @property
    def now(self) -> float:
        """The time in seconds."""
    @property
    def una(self) -> int:
        """Everything below has arrived."""
    @property
    def limit(self) -> int:
        """Nothing from here on may be sent yet."""
    @property
    def credit_window(self) -> int:
        """How far above `una` the receiver lets the sender go, in bytes."""
    @property
    def unsent(self) -> list[tuple[int, int]]:
        """The ranges that no path has, the lowest first; at most 64."""
    @property
    def paths(self) -> list[PathView]: ...

@final
class Ack:
    """An acknowledgement that delivers something new. Counts are segments."""

    @property
    def now(self) -> float: ...
    @property
    def delivered(self) -> int: ...
    @property
    def rtt_s(self) -> float | None:
        """Measured by this one; none from retransmissions."""
    @property
    def srtt_s(self) -> float: ...
    @property
    def min_rtt_s(self) -> float: ...
    @property
    def prior_in_flight(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def cwnd_limited(self) -> bool:
        """Whether the window, not the application, has limited sending of late."""
    @property
    def phase(self) -> str:
        """`open`, `recovery`, or `loss` after a timeout."""
    @property
    def newly_lost(self) -> int: ...
    @property
    def total_delivered(self) -> int: ...
    @property
    def total_lost(self) -> int: ...
    @property
    def una(self) -> int:
        """All bytes below are acknowledged."""
    @property
    def nxt(self) -> int:
        """The offset that is sent next."""
    @property
    def delivery_rate(self) -> float | None:
        """Segments a second."""
    @property
    def app_limited(self) -> bool: ...

@final
class Loss:
    """The begin of a recovery, by duplicate acknowledgements or a timeout."""

    @property
    def now(self) -> float: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def srtt_s(self) -> float: ...
    @property
    def nxt(self) -> int: ...

@final
class Simulation:
    def __new__(
        cls,
        scenario: Scenario,
        scheme: str,
        congestion: str,
        seed: int,
        series: bool,
        parts: Sequence[Part],
    ) -> Simulation: ...
    def advance(self, seconds: float) -> bool: ...
    @property
    def segment_bytes(self) -> int: ...
    def observe(
        self,
    ) -> tuple[float, int, int, float, list[tuple[float, float, int, int, int]]]: ...
    def split(self, shares: Sequence[float]) -> None: ...
    def steer(self, windows: Sequence[tuple[float, float]]) -> None: ...
    def outcome(self) -> Run: ...

@final
class Writer:
    def add(self, json: str, rows: str) -> None: ...
    def finish(self) -> None: ...

def run(
    scenario: Scenario,
    scheme: str,
    congestion: str,
    seed: int,
    series: bool,
    parts: Sequence[Part],
) -> Run: ...
def advance_all(simulations: Sequence[Simulation], seconds: float) -> list[bool]: ...
def run_all(
    jobs: Sequence[tuple[Scenario, str, str, int]],
    parts: Sequence[Part],
    threads: int | None,
    series: bool,
    take: Callable[[Run], object],
) -> None: ...
def read_runs(directory: str | PathLike[str]) -> list[str]: ...
def read_series(directory: str | PathLike[str], places: Sequence[int]) -> Table | None: ...
def series_of(runs: Sequence[Run]) -> Table: ...
def merge(directory: str | PathLike[str]) -> tuple[int, int, str | None, list[str]]: ...
def record_keys() -> set[str]: ...
def report(
    directory: str | PathLike[str], file: str | PathLike[str] | None = None
) -> Path: ...
def table(records: Sequence[str]) -> Table: ...
def mean_ci95(values: Sequence[float]) -> tuple[float, float | None, int] | None: ...
def link_discards(record: str) -> float | None: ...
def ratios(records: Sequence[str]) -> list[tuple[int, float, float]]: ...
def vr_gains(
    sessions: Sequence[str],
) -> list[
    tuple[str, str, str, tuple[float, float | None, int], tuple[float, float | None, int]]
]: ...
def scenarios() -> list[tuple[str, str]]: ...
def sweeps() -> list[tuple[str, str]]: ...
def schemes() -> list[tuple[str, str]]: ...
def congestion_controls() -> list[str]: ...
