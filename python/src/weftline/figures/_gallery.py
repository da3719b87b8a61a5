"""Runs what figures need, draws them, and writes the page that shows them all."""

from __future__ import annotations

import datetime
import importlib.util
import pathlib
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _weftline
from .._results import Results
from ._catalog import FIGURES, Figure, Need, Size
from ._data import WORLDS, Data, Missing
from ._plot import grey, says
from .claims import counts, table
from .fbdt import SESSIONS

# So that a figure drawn again of the same results is the same file.
_STYLE: Any = {"svg.hashsalt": "weftline", "svg.fonttype": "none", "font.size": 8, "axes.spines.top": False,
          "axes.spines.right": False}


@dataclass(frozen=True)
class Drawn:
    """A figure as drawn: its file, and the results that it misses."""

    figure: Figure
    file: pathlib.Path
    missing: str


def needs(names: Sequence[str]) -> list[Need]:
    """The sweeps of those figures, each once; with series if one of them wants these."""
    all_needs: dict[str, Need] = {}
    for one in names:
        for need in FIGURES[one].needs:
            known = all_needs.get(need.name)
            series = need.series or (known is not None and known.series)
            all_needs[need.name] = Need(need.name, need.make, series)
    return list(all_needs.values())


def run_all(
    root: pathlib.Path, names: Sequence[str], size: Size, tell: Callable[[str], None]
) -> None:
    """Does the runs that those figures need and that are not there, in the simulator."""
    for need in needs(names):
        sweep = need.make(size)
        if sweep is None:
            tell(f"{need.name}: left out; WEFTLINE_DATA names no folder with its data")
            continue
        tell(f"{need.name}: {len(sweep)} runs")
        sweep.run(root / "sim" / need.name, series=need.series)
    for one in names:
        figure = FIGURES[one]
        if figure.measure and not all((root / file).exists() for file in figure.files):
            tell(f"{one}: measured on this machine")
            root.mkdir(parents=True, exist_ok=True)
            figure.measure(root)


def save_sweeps(directory: pathlib.Path, names: Sequence[str], size: Size) -> list[pathlib.Path]:
    """Writes the sweeps that those figures need, as files that the lab runs as well."""
    made = (need.make(size) for need in needs(names))
    return [sweep.save(directory) for sweep in made if sweep is not None]


def draw_all(root: pathlib.Path, out: pathlib.Path, names: Sequence[str] | None = None) -> list[Drawn]:
    """Draws figures of the results in `root` into `out`, an SVG each."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("figures need matplotlib; in the sources, pip install './python[plot]'")
    import matplotlib

    matplotlib.use("svg")
    out.mkdir(parents=True, exist_ok=True)
    data = Data(root)
    with matplotlib.rc_context(_STYLE):
        return [_draw(FIGURES[name], data, out) for name in (names or FIGURES)]


def _draw(figure: Figure, data: Data, out: pathlib.Path) -> Drawn:
    from matplotlib.figure import Figure as Canvas

    canvas: Any = Canvas(figsize=(8.6, 3.0), layout="constrained")
    left, right = canvas.subplots(1, 2, width_ratios=(1, 1.6))
    missing = ""
    if figure.says:
        says(left, f"{_origin(figure)}:\n\n{figure.says}")
    try:
        figure.draw(data, left, right)
    except Missing as error:
        missing = str(error)
        right.clear()
        grey(right, f"no results in {missing}")
    if not left.has_data() and not figure.says and not left.texts:
        grey(left, f"{figure.source}, {figure.where}:\nnothing was printed")
    canvas.suptitle(figure.title, x=0.01, ha="left", fontsize=9)
    file = out / f"{figure.name}.svg"
    canvas.savefig(file, metadata={"Date": None})
    return Drawn(figure, file, missing)


def page(drawn: Sequence[Drawn], data: Data, file: pathlib.Path, command: str, size: Size = "full") -> None:
    """The page that shows them all."""
    today = datetime.date.today().strftime("%-d %B %Y")
    there = [one for one in drawn if not one.missing]
    lines = [
        "# The figures of the sources, and ours",
        "",
        "On the left of each is what was published, on the right what we measure: plain bars and lines "
        "are of the simulator, hatched ones of the lab, with 95 % intervals over seeds (COTAG's with 90 %, as in "
        "the paper); a dash marks a single run, which has none. Where the source "
        "prints no number, its words stand there. What we have not measured is grey.",
        "",
        f"Made by `{command}` on {today}, weftline {_weftline.__version__}, {platform.system()} "
        f"{platform.release().partition('-')[0]}: {len(there)} of {len(drawn)} figures.",
    ]
    source = ""
    for one in drawn:
        figure = one.figure
        if figure.source != source:
            source = figure.source
            lines += ["", f"## {source}"]
        lines += ["", f"### {figure.title}", "", f"![{figure.title}]({_relative(one.file, file)})", ""]
        lines.append(_below(one, data, size))
    lines += ["", "## Not figures of measurements", "", NOT_DRAWN, ""]
    file.write_text("\n".join(lines), encoding="utf-8")


NOT_DRAWN = (
    "FBDT's Figures 1, 2, 4, 5, 6a and 6b and COTAG's 1, 2, 3a and 4 are drawings and photographs."
)


def _origin(figure: Figure) -> str:
    return ", ".join(part for part in (figure.source, figure.where) if part)


def _below(one: Drawn, data: Data, size: Size) -> str:
    """Where a figure is from, how many runs it shows, and how these are made again."""
    figure = one.figure
    parts = [f"{_origin(figure)}."]
    if one.missing:
        parts.append(f"Missing: `{one.missing}`.")
    for need in figure.needs:
        counts = {world: data.results(need, world) for world in WORLDS}
        made = [f"{len(runs)} runs ({world})" for world, runs in counts.items() if runs is not None]
        if made:
            parts.append(f"`{need.name}`: {', '.join(made)}.")
    if figure.needs:
        parts.append(f"Again: `ONLY={figure.name} scripts/figures {size}`.")
    if figure.lab:
        parts.append(f"Lab: `{figure.lab}`.")
    return " ".join(parts)


def claims_page(data: Data, file: pathlib.Path, command: str) -> None:
    """The page with our verdicts on the sources' claims."""
    needs_ = {need.name: need for figure in FIGURES.values() for need in figure.needs}
    known: dict[tuple[str, str], Results | list[dict[str, Any]]] = {}

    def results(world: str, sweep: str) -> Results | list[dict[str, Any]] | None:
        found: Results | list[dict[str, Any]] | None
        if sweep in needs_:
            found = data.results(needs_[sweep], world)
        else:
            # The sessions of 360° video are no sweep.
            found = data.json(SESSIONS) if world == "sim" and (data.root / SESSIONS).exists() else None
        if found is not None:
            known[world, sweep] = found
        return found

    text, counts = table(results)
    lines = [
        "# The claims of the sources, and what we find",
        "",
        "Each claim has a test on runs of several seeds. It holds, or does not hold, where the 95 % interval "
        "over seeds says so, of a mean, of paired differences, or of the logarithms of paired ratios; else it is "
        "undecided. Where nothing is "
        "random all seeds give the same run, and the text says so; of events that are equally many in each run the "
        "interval is Poisson's. A claim of several parts holds where each part does; it does not where one fails at "
        "5 % divided by their number. The figure is that of the part that fails most clearly, else of the first "
        "that is undecided, else of the one that holds most narrowly.",
        "",
        "Where a sentence has a number, three quarters of its effect are asked for: of \"20 % higher\" 15 %; of "
        "\"significantly\" and \"much\", which have none, 10 % and a quarter. Runs that failed do not count; a "
        "transfer that was not finished counts with the time that it had. Rows with a dot and a word test a sentence "
        "again under other conditions; the first table counts each sentence once, in the simulator. `-soft` are TP-STY and TR-STY "
        "that use another path while their own has no room; as printed, they wait.",
        "",
        f"Made by `{command}` on {datetime.date.today().strftime('%-d %B %Y')}, weftline "
        f"{_weftline.__version__}.",
        "",
        "| source | hold | do not hold | undecided |",
        "|---|---|---|---|",
        *(f"| {source} | {a} | {b} | {c} |" for source, (a, b, c) in counts.items()),
        "",
        "The runs:",
        "",
        "| sweep | world | runs | of them failed | seeds | weftline |",
        "|---|---|---|---|---|---|",
        *(f"| `{sweep}` | {world} | {_made(found)} |" for (world, sweep), found in known.items()),
    ]
    file.write_text("\n".join(lines) + "\n" + text, encoding="utf-8")


def _made(results: Results | list[dict[str, Any]]) -> str:
    """Cells: how many runs there are, how many of them are no results, of how many seeds, and of which
    versions."""
    seeds, versions = ({run[key] for run in results} for key in ("seed", "version"))
    bad = sum("scenario" in run and not counts(run) for run in results)
    return f"{len(results)} | {bad} | {len(seeds)} | {', '.join(sorted(versions))}"


def _relative(file: pathlib.Path, page: pathlib.Path) -> str:
    return str(pathlib.PurePosixPath(file.resolve().relative_to(page.resolve().parent)))
