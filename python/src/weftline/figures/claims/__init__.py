"""The claims of the three sources: where each stands, what it says, the test, and our verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..._results import Results
from ..verdict import Finding
from ._runs import Claim, Record, Runs, counts
from .cotag import COTAG
from .fbdt import FBDT
from .slides import SLIDES

__all__ = ["ALL", "COTAG", "FBDT", "SLIDES", "Claim", "counts", "judge", "table"]

ALL: list[Claim] = [*FBDT, *COTAG, *SLIDES]


def judge(claim: Claim, records: Iterable[Record] | Results, soft: bool = False) -> Finding:
    """What the runs of the claim's sweep say of it."""
    return claim.judge(Runs(records, soft)).judge()


Found = Callable[[str, str], "Results | Sequence[Record] | None"]


def table(results: Found) -> tuple[str, dict[str, tuple[int, int, int]]]:
    """The claims as a table in Markdown; `results` gives the runs of a sweep in a world. And how many
    sentences of each source hold, do not, and are undecided, in the simulator and as printed: another
    reading of a sentence is not counted again."""
    lines, tallies = [], {}
    for source in dict.fromkeys(claim.source for claim in ALL):
        verdicts = []
        is_slides = source == SLIDES[0].source
        columns = ["simulator", "the figure that decides", *(["with `-soft`"] if is_slides else []), "lab"]
        lines += ["", f"## {source}", "", "| claim | where | it says | test | " + " | ".join(columns) + " |",
                  "|---" * (4 + len(columns)) + "|"]
        for claim in (one for one in ALL if one.source == source):
            cells = _cells(claim, results, is_slides)
            if not claim.is_variant:
                verdicts.append(cells[0])
            words = [claim.name, claim.where, claim.sentence, claim.test, *cells]
            lines.append("| " + " | ".join(words) + " |")
        tallies[source] = tuple(verdicts.count(word) for word in ("holds", "does not hold", "undecided"))
    return "\n".join(lines) + "\n", tallies  # type: ignore[return-value]


def _cells(claim: Claim, results: Found, is_slides: bool) -> list[str]:
    """Verdict and figure of the simulator, the verdict of soft schedulers, and the lab's with its figure."""
    sim, lab = (results(world, claim.sweep) for world in ("sim", "lab"))
    of_sim = judge(claim, sim) if sim is not None else None
    cells = [of_sim.verdict, of_sim.words] if of_sim else ["no runs", ""]
    if is_slides:
        cells.append(judge(claim, sim, soft=True).verdict if sim is not None else "no runs")
    of_lab = judge(claim, lab) if lab is not None else None
    return [*cells, f"{of_lab.verdict}: {of_lab.words}" if of_lab else "no runs"]
