"""`python -m weftline sweep`: what `weftline sim sweep` does, and on a Ray cluster."""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import pathlib
import sys
import time
from collections.abc import Iterator

from ._sweep import Cluster, Sweep
from .ray import Ray

# As the program's.
_FAILED, _WRONG_USE, _INTERRUPTED = 1, 2, 130


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m weftline")
    commands = parser.add_subparsers(dest="command", required=True)
    sweep = commands.add_parser("sweep", help="do every run of a sweep file, or go on with it")
    sweep.add_argument("sweep", help="a built-in sweep or a TOML file")
    sweep.add_argument("--out", type=pathlib.Path, metavar="DIR", help="default: results/NAME")
    sweep.add_argument("--series", action="store_true", help="keep time series of every run")
    sweep.add_argument("--on", choices=["threads", "processes", "ray"], default="threads")
    sweep.add_argument("--jobs", type=int, metavar="N", help="how many runs at once, on threads or "
                       "processes; default: one per core")
    given = parser.parse_args()
    try:
        return _sweep(given)
    except ValueError as error:
        print(f"weftline: {error}", file=sys.stderr)
        return _WRONG_USE
    except (ImportError, OSError, RuntimeError) as error:
        print(f"weftline: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED


def _sweep(given: argparse.Namespace) -> int:
    sweep = Sweep.load(given.sweep)
    out = given.out or pathlib.Path("results") / sweep.name
    began = time.monotonic()
    with _where(given) as on:
        series = True if given.series else None
        # Processes are as many; with Ray it is refused.
        threads = None if given.on == "processes" else given.jobs
        results = sweep.run(out, on=on, threads=threads, series=series,
                            progress=sys.stderr.isatty())
    print(f"{out}: {len(results)} runs in {time.monotonic() - began:.1f} s")
    failed = [run for run in results if run["error"] is not None]
    for run in failed[:20]:
        print(f"weftline: {run['scenario']}/{run['scheme']}: {run['error']}", file=sys.stderr)
    if failed:
        print(f"weftline: {len(failed)} of {len(results)} runs failed", file=sys.stderr)
    return _FAILED if failed else 0


@contextlib.contextmanager
def _where(given: argparse.Namespace) -> Iterator[concurrent.futures.Executor | Cluster | None]:
    match given.on:
        case "ray":
            yield Ray()
        case "processes":
            with concurrent.futures.ProcessPoolExecutor(given.jobs) as executor:
                yield executor
        case _:
            yield None


if __name__ == "__main__":
    sys.exit(main())
