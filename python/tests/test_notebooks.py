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


def test_what_the_readme_shows_runs(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib")
    readme = (pathlib.Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    first, second = (block.partition("```")[0] for block in readme.split("```python\n")[1:3])
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run([sys.executable, "-c", first + second], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "half_width" in done.stdout and (tmp_path / "results/loss/report.html").exists()
    assert (tmp_path / "goodput.png").stat().st_size > 1000
