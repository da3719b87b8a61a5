"""What figures there are, and what each wants."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .._sweep import Sweep

if TYPE_CHECKING:
    from ._data import Data


# How much is run: in a quarter of an hour, in hours, or what the lab, where a run takes its time, does in
# some hours.
Size = Literal["quick", "full", "lab"]


def chosen(size: Size, quick: Any, full: Any, lab: Any = None) -> Any:
    """What a size wants; the lab as `full` unless it has a choice of its own."""
    return {"quick": quick, "full": full, "lab": full if lab is None else lab}[size]


@dataclass(frozen=True)
class Need:
    """A sweep whose results a figure shows, in the folder of that name of the world `sim`; those of the
    world `lab`, if there are any, are shown beside them."""

    name: str
    # The sweep itself, in a size. None where it is of data that are absent.
    make: Callable[[Size], Sweep | None]
    series: bool = False


@dataclass(frozen=True)
class Figure:
    """One figure of a source, or of our own."""

    name: str
    source: str
    where: str
    title: str
    draw: Callable[[Data, Any, Any], None]
    needs: Sequence[Need] = ()
    # What the source says, where it prints no numbers, and shown instead of a panel of values.
    says: str = ""
    # How the lab's part is measured.
    lab: str = ""
    # Measures what is not a sweep, into the folder of results.
    measure: Callable[[pathlib.Path], None] | None = None
    # Files that are not a sweep's.
    files: Sequence[str] = field(default=())


FIGURES: dict[str, Figure] = {}


def figure(
    name: str, source: str, where: str, title: str, **keys: Any
) -> Callable[[Callable[[Data, Any, Any], None]], Callable[[Data, Any, Any], None]]:
    """Adds the function that draws a figure: on its left axes and its right ones."""

    def add(draw: Callable[[Data, Any, Any], None]) -> Callable[[Data, Any, Any], None]:
        FIGURES[name] = Figure(name, source, where, title, draw, **keys)
        return draw

    return add
