"""Schedulers and congestion controls of your own."""

from __future__ import annotations

import functools
import math
import os
import sys
import weakref
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
        room. If the path picked has none, all wait for it; `None` waits, too.

        `now` is in seconds from where the simulator begins: the workload begins some tenths of a second
        later, when the connections stand, and a series with it."""
        raise _missing(self, "pick(self, now, paths)", "Picker")


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
        answer that cannot be sent is the `error` of the run's record. `view.now` is that of a `Picker`.
        """
        raise _missing(self, "next(self, view)", "Scheduler")


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
        """An acknowledgement has delivered something new. `ack.now` is that of a `Picker`."""
        raise _missing(self, "on_ack(self, ack)", "Control")

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


def _missing(thing: object, method: str, base: str) -> NotImplementedError:
    return NotImplementedError(f"{type(thing).__name__} has no {method}, which a {base} needs")


OwnScheme = type[Picker] | type[Scheduler] | functools.partial[Any]
OwnControl = type[Control] | functools.partial[Any]
SchemeLike = str | OwnScheme
ControlLike = str | OwnControl


# Stands for what cannot be digested: itself in this process, in no other one.
_FRESH = os.urandom(4).hex()
# The digests of classes, as they were when they were asked for first: what runs may change what they reach.
_DIGESTS: weakref.WeakKeyDictionary[type, tuple[str, bool]] = weakref.WeakKeyDictionary()


def digest_of(thing: type | functools.partial[Any]) -> str:
    """The digest of what a class does, with the arguments that it was given. If it has something that
    cannot be digested, such as a lock, or reaches for it, another one in each process. It is of what the class
    was when it was asked for first: one that is changed later has to be defined anew."""
    from . import _digest

    plain = _plain(thing)
    digest, is_whole = _DIGESTS.get(plain) or _DIGESTS.setdefault(plain, _digest.digest(plain, plain.__module__))
    given = (thing.args, sorted(thing.keywords.items())) if isinstance(thing, functools.partial) else ()
    # How it is asked is looked at each time, too.
    digest, all_of_them = _digest.digest((digest, given, getattr(plain, "by_segment", None)), plain.__module__)
    is_whole = is_whole and all_of_them
    return digest if is_whole else f"{digest}-{_FRESH}"


def name_of(thing: type | functools.partial[Any]) -> str:
    """What records call a class: module, name and digest, so that results of two versions of it are not
    taken for the same."""
    plain = _plain(thing)
    return f"py:{plain.__module__}.{plain.__qualname__}@{digest_of(thing)}"


def is_other(thing: type | functools.partial[Any], name: str) -> bool:
    """Whether this process has imported another class of that name. One that was sent whole is what it
    was where it came from."""
    plain = _plain(thing)
    found = sys.modules.get(plain.__module__)
    for step in plain.__qualname__.split("."):
        found = getattr(found, step, None)
    # What each process makes of the rest tells nothing.
    said, own = name.rpartition("@")[2], digest_of(thing)
    return found is plain and said.partition("-")[0] != own.partition("-")[0]


def scheme_part(scheme: SchemeLike, name: str | None = None) -> _weftline.Part | None:
    """What stands for a scheme that is a class; `None` for a name."""
    if isinstance(scheme, str):
        return None
    if _is(scheme, Picker):
        return _weftline.Part(name or name_of(scheme), "picker", scheme)
    if _is(scheme, Scheduler):
        by_segment = bool(_plain(scheme).by_segment)
        return _weftline.Part(name or name_of(scheme), "scheduler", scheme, by_segment=by_segment)
    raise TypeError(f"a scheme is a name or a class that is a Picker or a Scheduler, not {scheme!r}")


def control_part(congestion: ControlLike, name: str | None = None) -> _weftline.Part | None:
    """The same for a congestion control."""
    if isinstance(congestion, str):
        return None
    if _is(congestion, Control):
        return _weftline.Part(name or name_of(congestion), "control", congestion)
    raise TypeError(f"a congestion control is a name or a class that is a Control, not {congestion!r}")


def named(scheme: SchemeLike, congestion: ControlLike) -> tuple[str, str, list[_weftline.Part]]:
    """The names of a scheme and a congestion control, and what stands for them."""
    parts = scheme_part(scheme), control_part(congestion)
    names = [part.name if part else str(thing) for part, thing in zip(parts, (scheme, congestion))]
    return names[0], names[1], [part for part in parts if part]


def _plain(thing: Any) -> Any:
    """A class, without arguments that it was given."""
    return thing.func if isinstance(thing, functools.partial) else thing


def _is(thing: Any, base: type) -> bool:
    plain = _plain(thing)
    return isinstance(plain, type) and issubclass(plain, base)
