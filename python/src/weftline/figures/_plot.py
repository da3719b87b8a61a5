"""How the panels look."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ._data import WORLDS, Cell

GREY, INK = "#e8e8e8", "#404040"
# The same scheme has the same colour in every figure.
_COLOURS = {
    "single:wifi": "#8aa8c8", "single:wigig": "#4f6d8f", "single:fwd": "#8aa8c8",
    "single:bwd": "#4f6d8f", "single:one": "#8aa8c8", "single:two": "#4f6d8f",
    "linux-mptcp": "#c98a3d", "musher": "#8b6bb0", "fbdt": "#2d8659", "earliest": "#c0392b",
    "min-rtt": "#e0a458", "cotag": "#2d8659", "cotag-dense": "#7fbf9f", "fbdt-strict": "#9bc53d",
    "bbr": "#2d8659", "cubic": "#c98a3d", "compound": "#8aa8c8", "lia": "#c0392b",
    "olia": "#8b6bb0", "balia": "#d77fa1",
}
_OTHERS = ["#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3", "#8c8c8c"]
NAMES = {
    "single:wifi": "WiFi alone", "single:wigig": "WiGig alone", "linux-mptcp": "MPTCP",
    "musher": "MuSher", "fbdt": "FBDT", "fbdt-strict": "FBDT as printed", "cotag": "COTAG",
    "cotag-dense": "COTAG, all coded", "bbr": "BBR", "cubic": "CUBIC", "compound": "Compound",
    "lia": "LIA", "olia": "OLIA", "balia": "BALIA", "min-rtt": "LRF", "lpc": "LPC", "let": "LET",
    "gr-sty": "GR-STY", "tp-sty": "TP-STY", "tr-sty": "TR-STY", "tp-sty-soft": "TP-STY\nsoft",
    "tr-sty-soft": "TR-STY\nsoft",
}


def name(key: str) -> str:
    """What the figures call it."""
    return NAMES.get(key, key)


def colour(key: str, place: int = 0) -> str:
    """A scheme's, or that of a place in a list."""
    return _COLOURS.get(key, _OTHERS[place % len(_OTHERS)])


def _filled(text: str) -> str:
    """In lines that fit a panel."""
    return "\n".join(textwrap.fill(line, 46) for line in text.splitlines())


def grey(axes: Any, why: str) -> None:
    """A panel of which there is nothing to show."""
    axes.set_facecolor(GREY)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.text(0.5, 0.5, _filled(why), ha="center", va="center", color=INK, transform=axes.transAxes,
              in_layout=False)


def says(axes: Any, text: str) -> None:
    """What a source says in words."""
    axes.axis("off")
    axes.text(0.0, 0.95, _filled(text), ha="left", va="top", color=INK, transform=axes.transAxes,
              in_layout=False)


def bars(
    axes: Any,
    groups: Sequence[str],
    kinds: Sequence[str],
    worlds: Mapping[str, Mapping[tuple[Any, ...], Cell]],
    label: str,
    shown: Sequence[str] = (),
) -> None:
    """Grouped bars, a colour for each kind, hatched for the lab, with intervals. `worlds` has cells by
    group and kind."""
    present = [world for world in (*WORLDS, "published") if world in worlds]
    named: set[str] = set()
    width = 0.84 / max(1, len(kinds) * len(present))
    for place, kind in enumerate(kinds):
        for turn, world in enumerate(present):
            cells = [worlds[world].get((group, kind)) for group in groups]
            offset = (place * len(present) + turn + 0.5) * width - 0.42
            at = [n + offset for n, cell in enumerate(cells) if cell is not None]
            if not at:
                continue
            means = [cell[0] for cell in cells if cell is not None]
            errors = [cell[1] or 0.0 for cell in cells if cell is not None]
            alone = [(x, cell[0]) for x, cell in zip(at, filter(None, cells)) if cell[1] is None]
            if alone and world != "published":
                # One run has no interval.
                axes.plot(*zip(*alone), "_", color=INK, markersize=3, markeredgewidth=0.7)
            axes.bar(
                at, means, width * 0.94, color=colour(kind, place), label=name(kind) if kind not in named else None,
                hatch="//" if world == "lab" else None, edgecolor="white", linewidth=0.3,
                yerr=errors if any(errors) else None, error_kw={"elinewidth": 0.7, "ecolor": INK},
            )
            named.add(kind)
    axes.set_xticks(range(len(groups)), shown or [name(group) for group in groups], fontsize=7)
    axes.set_ylabel(label)
    _from_zero(axes)
    axes.legend(fontsize=6, frameon=False, ncols=2)
    if "lab" in present:
        axes.set_title("plain: simulator, hatched: lab", fontsize=7, color=INK)


def _from_zero(axes: Any) -> None:
    """Lets the axis begin at 0, but where something is below it."""
    if axes.dataLim.y0 >= 0:
        axes.set_ylim(bottom=0)
    else:
        axes.axhline(0, linewidth=0.5, color=INK)


def lines(
    axes: Any,
    curves: Mapping[str, Sequence[tuple[float, Cell]]],
    across: str,
    label: str,
) -> None:
    """Means over a number, with intervals."""
    for place, (key, points) in enumerate(curves.items()):
        points = sorted(points)
        kind, _, rest = key.partition(" ")
        axes.errorbar(
            [x for x, _ in points], [cell[0] for _, cell in points],
            [cell[1] or 0.0 for _, cell in points], label=f"{name(kind)} {rest}".strip(),
            color=colour(kind, place), linestyle="--" if rest else "-", marker="o", markersize=3,
            linewidth=1, elinewidth=0.7,
        )
    axes.set_xlabel(across)
    axes.set_ylabel(label)
    _from_zero(axes)
    axes.legend(fontsize=6, frameon=False)


def cdfs(axes: Any, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], across: str) -> None:
    """Distributions."""
    for place, (key, (values, shares)) in enumerate(curves.items()):
        kind, _, rest = key.partition(" ")
        axes.plot(values, shares, label=f"{name(kind)} {rest}".strip(), color=colour(kind, place),
                  linestyle="--" if rest else "-", linewidth=1)
    axes.set_xlabel(across)
    axes.set_ylabel("share")
    axes.set_ylim(0, 1)
    axes.legend(fontsize=6, frameon=False)
