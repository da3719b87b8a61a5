"""The figures of the papers and the slides, with ours beside them.

    python -m weftline.figures RESULTS --out DIR          # draws what there are results for
    python -m weftline.figures RESULTS --run quick        # makes what is missing, small, and draws

Each figure is a function. On its left is what was published, values where the source prints some and
the direction where it does not; on its right what we measure, in the simulator and in the lab, with
95 % intervals. A panel whose results are missing is grey and says which. Needs matplotlib (`pip install
'./python[plot]'`).
"""

# In the order of the page.
from . import fbdt  # isort: skip
from . import cotag  # isort: skip
from . import slides  # isort: skip
from . import ours  # isort: skip
from ._catalog import FIGURES, Figure
from ._data import Data
from ._gallery import draw_all, run_all

__all__ = ["FIGURES", "Data", "Figure", "cotag", "draw_all", "fbdt", "ours", "run_all", "slides"]
