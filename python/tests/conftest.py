"""What the tests share."""

import os
import pathlib

import pytest

import weftline as wl


@pytest.fixture(scope="session")
def program() -> pathlib.Path:
    """The program of the same sources (`WEFTLINE`)."""
    path = os.environ.get("WEFTLINE")
    if not path:
        pytest.skip("WEFTLINE names no weftline program to compare with; scripts/python does")
    return pathlib.Path(path)


@pytest.fixture
def links() -> wl.Scenario:
    """Two small links."""
    return wl.Scenario(
        "two-links",
        duration="1s",
        warmup="100ms",
        paths=[
            wl.Path("wifi", rate="50Mbps", delay="2ms", loss=0.001),
            wl.Path("lte", rate="20Mbps", delay="30ms"),
        ],
    )


@pytest.fixture
def sweep(links: wl.Scenario) -> wl.Sweep:
    """Twenty-four short runs."""
    return wl.Sweep(
        links,
        scheme=["earliest", "min-rtt", "single:*"],
        seed=range(1, 4),
        set={"path.wifi.loss": [0, 0.01]},
    )
