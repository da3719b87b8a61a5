"""Schedulers and congestion controls of your own."""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
from collections.abc import Sequence
from typing import Any

from . import _weftline


class Picker:
    """A scheduler that picks a path for each segment, as the kernel's do. Give the class to `run`:

        class Fastest(wl.Picker):
            def pick(self, now, paths):
                return max((p for p in paths if p.has_room), key=lambda p: p.cwnd / p.srtt_s).index

        wl.run(links, Fastest)

    What a stalled path holds is sent on another one and a full send window is opened again without
    asking. Each end of each connection has an object of its own.
    """

    def pick(self, now: float, paths: Sequence[_weftline.PathView]) -> int | None:
        """The index of the path for the next segment, of which there is one; at least one path has
        room. If the path picked has none, all wait for it; `None` waits, too. `now` is in seconds."""
        raise NotImplementedError


class Scheduler:
    """A scheduler that assigns ranges of the stream, as the daemons' own do: any bytes, in any order,
    and again on another path. What a stalled path holds is sent on another one without asking."""

    by_segment = False
    """Whether it is asked for each segment when a window has room for it, as a kernel's is; the daemons'
    own keep a little unsent in each socket."""

    def next(self, view: _weftline.View) -> tuple[int, int, int] | None:
        """Which path takes which range next: its index, and where the range begins and ends. `None`
        waits until something changes. It is asked until it waits.

        A range is not empty, not longer than the path's `room`, and not partly new and partly sent; an
        answer that cannot be sent is the `error` of the run's record.
        """
        raise NotImplementedError


class Control:
    """A congestion control of one connection. Windows are in segments. After each call the window
    `cwnd`, at least 1, `ssthresh` and `pacing_rate_mbps` (`None` does not pace) are read.

        class Half(wl.Control):
            def on_ack(self, ack):
                if ack.phase != "recovery" and ack.cwnd_limited:
                    self.cwnd += ack.delivered * (1 if self.cwnd < self.ssthresh else 1 / self.cwnd)

    What is not overridden does as NewReno: half on loss, one segment after a timeout. When a loss
    begins a recovery, and what is sent in it, is the endpoint's to decide.
    """

    cwnd: float
    ssthresh: float
    pacing_rate_mbps: float | None = None

    def __init__(self, mss: int, initial_cwnd: int) -> None:
        """`mss` is the payload of a segment in bytes, `initial_cwnd` the first window."""
        self.mss = mss
        self.cwnd, self.ssthresh = float(initial_cwnd), math.inf
        self._before: tuple[float, float] | None = None

    def on_established(self, srtt_s: float) -> None:
        """The handshake has measured a round-trip time, before any data."""

    def on_ack(self, ack: _weftline.Ack) -> None:
        """An acknowledgement has delivered something new."""
        raise NotImplementedError

    def on_congestion(self, loss: _weftline.Loss) -> None:
        """Recovery begins: lower `ssthresh`, and the window to it."""
        self._reduce()
        self.cwnd = min(self.cwnd, self.ssthresh)

    def on_timeout(self, loss: _weftline.Loss, first: bool) -> None:
        """The retransmission timer has expired; `first` is false for more expiries of the same loss."""
        if first:
            self._reduce()
        self.cwnd = 1.0

    def on_recovery_end(self, now: float) -> None:
        """All that was outstanding when recovery began has been acknowledged."""

    def on_spurious(self) -> None:
        """The last reduction was for nothing: take it back."""
        if self._before is not None:
            cwnd, ssthresh = self._before
            self.cwnd, self.ssthresh = max(self.cwnd, cwnd), max(self.ssthresh, ssthresh)
            self._before = None

    def on_restart(self, now: float) -> None:
        """Sending goes on after nothing was in flight."""

    def on_penalty(self) -> None:
        """A scheduler wants the window halved, because this connection holds up the others."""
        if self.cwnd >= self.ssthresh:
            self.ssthresh = max(2.0, self.ssthresh // 2)
        self.cwnd = max(1.0, self.cwnd // 2)

    def on_unused_window(self, cwnd: float) -> None:
        """The application has left the window unused: lower it to `cwnd` if it is larger."""
        if cwnd < self.cwnd:
            self.ssthresh = max(self.ssthresh, math.floor(self.cwnd * 0.75))
            self.cwnd = max(1.0, math.floor(cwnd))

    def _reduce(self) -> None:
        self._before = (self.cwnd, self.ssthresh)
        self.ssthresh = max(2.0, self.cwnd // 2)


SchemeLike = str | type[Picker] | type[Scheduler] | functools.partial[Any]
ControlLike = str | type[Control] | functools.partial[Any]


def name_of(thing: type | functools.partial[Any]) -> str:
    """What records call a class: module, name, and the digest of its source, so that results of two
    versions of it are not taken for the same."""
    plain = _plain(thing)
    try:
        source = inspect.getsource(plain)
    except (OSError, TypeError):
        source = ""  # typed at a prompt
    if isinstance(thing, functools.partial):
        source += repr((thing.args, sorted(thing.keywords.items())))
    digest = f"@{hashlib.sha256(source.encode()).hexdigest()[:8]}" if source else ""
    return f"py:{plain.__module__}.{plain.__qualname__}{digest}"


def parts_of(scheme: SchemeLike, congestion: ControlLike) -> tuple[str, str, _weftline.Parts]:
    """Names for the simulator, and what it takes from here in their places."""
    parts: dict[str, Any] = {}
    if not isinstance(scheme, str):
        kind = "picker" if _is(scheme, Picker) else "scheduler" if _is(scheme, Scheduler) else None
        if kind is None:
            raise TypeError(f"a scheme is a name or a class that is a Picker or a Scheduler, not {scheme!r}")
        parts |= {kind: scheme, "scheme_name": name_of(scheme)}
        if kind == "scheduler":
            parts["by_segment"] = bool(_plain(scheme).by_segment)
    if not isinstance(congestion, str):
        if not _is(congestion, Control):
            raise TypeError(f"a congestion control is a name or a class that is a Control, not {congestion!r}")
        parts |= {"control": congestion, "congestion_name": name_of(congestion)}
        congestion = "reno"
    own = _weftline.Parts(**parts)
    return (scheme if isinstance(scheme, str) else own.scheme or ""), congestion, own


def _plain(thing: Any) -> Any:
    """A class, without arguments that it was given."""
    return thing.func if isinstance(thing, functools.partial) else thing


def _is(thing: Any, base: type) -> bool:
    plain = _plain(thing)
    return isinstance(plain, type) and issubclass(plain, base)
