"""What figures there are, and what each wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._sweep import Sweep

if TYPE_CHECKING:
    from ._data import Data


@dataclass(frozen=True)
class Need:
    """A sweep whose results a figure shows, in the folder of that name of the world `sim`; those of the
    world `lab`, if there are any, are shown beside them."""

    name: str
    # The sweep itself; in a quick size if that is asked for. None where it is of data that are absent.
    make: Callable[[bool], Sweep | None]
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
