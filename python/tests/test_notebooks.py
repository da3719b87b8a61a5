"""The notebooks run, in their quick size."""

import os
import pathlib
import subprocess
import sys

import pytest

NOTEBOOKS = sorted((pathlib.Path(__file__).parents[1] / "notebooks").glob("*.py"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for module in ("matplotlib", "polars", "gymnasium"):
        pytest.importorskip(module)
    environment = {**os.environ, "WEFTLINE_QUICK": "1", "MPLBACKEND": "Agg"}
    done = subprocess.run([sys.executable, notebook], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) == 3
