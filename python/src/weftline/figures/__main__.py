"""`python -m weftline.figures`."""

from __future__ import annotations

import argparse
import pathlib
import signal
import sys
from typing import get_args

from . import FIGURES
from ._catalog import Size
from ._data import Data
from ._gallery import claims_page, draw_all, page, run_all, save_sweeps


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m weftline.figures",
        description="Draws the figures of the papers and the slides, with ours beside them.",
    )
    parser.add_argument("results", type=pathlib.Path, nargs="?",
                        help="has sim/NAME and lab/NAME, the results of sweeps")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="default: RESULTS/figures")
    parser.add_argument("--only", metavar="NAME,…", help="these figures; default: all")
    parser.add_argument("--run", choices=get_args(Size), help="do the runs that are missing first, in the "
                        "simulator; lab is a size for --sweeps")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="a page in Markdown with all")
    parser.add_argument("--claims", type=pathlib.Path, metavar="FILE", help="a page with our verdicts on "
                        "the sources' claims")
    parser.add_argument("--sweeps", type=pathlib.Path, metavar="DIR", help="write the sweeps of those figures "
                        "there, for weftline lab sweep, and end")
    parser.add_argument("--list", action="store_true", help="name the figures, and end")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else list(FIGURES)
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        parser.error(f"there is no figure {unknown[0]}; there are: {', '.join(FIGURES)}")
    if given.list:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        for figure in FIGURES.values():
            print(f"{figure.name:24} {figure.source}, {figure.where}: {figure.title}")
        return 0
    if given.results is None:
        parser.error("the folder of results is missing")
    if given.run == "lab" and not given.sweeps:
        parser.error("--run lab writes sweeps for weftline lab sweep, into --sweeps DIR")
    try:
        return _make(given, names)
    except (ImportError, OSError, ValueError) as error:
        print(f"weftline.figures: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _make(given: argparse.Namespace, names: list[str]) -> int:
    if given.sweeps:
        for file in save_sweeps(given.sweeps, names, given.run or "full"):
            print(file)
        return 0
    if given.run:
        tell = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
        run_all(given.results, names, given.run, tell)
    drawn = draw_all(given.results, given.out or given.results / "figures", names)
    for one in drawn:
        print(f"{one.file}" + (f": no results in {one.missing}" if one.missing else ""))
    data = Data(given.results)
    if given.claims:
        claims_page(data, given.claims, f"python -m weftline.figures {given.results} --claims {given.claims}")
    if given.page:
        command = f"python -m weftline.figures {given.results} --run {given.run or 'full'}"
        page(drawn, data, given.page, command, given.run or "full")
    # Of all, some may be missing; what was asked for by name is not there.
    return 1 if given.only and any(one.missing for one in drawn) else 0


if __name__ == "__main__":
    sys.exit(main())
