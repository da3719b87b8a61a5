"""What there is, by name."""

from . import _weftline


def scenarios() -> dict[str, str]:
    """The built-in scenarios: name and what it is."""
    return dict(_weftline.scenarios())


def sweeps() -> dict[str, str]:
    """The built-in sweeps: name and what it is."""
    return dict(_weftline.sweeps())


def schemes() -> dict[str, str]:
    """What can carry the bytes: name and what it does."""
    return dict(_weftline.schemes())


def congestion_controls() -> list[str]:
    """The names of the congestion controls."""
    return _weftline.congestion_controls()
