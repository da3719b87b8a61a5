"""What is counted of a run: pictures that its viewer did not see because of the links, and what was sent
again.

One definition for the figures, the claims and `scripts/claims`, which loads this file alone: nothing of
the package, and only Python itself, may be imported here. That of discards is `RunRecord::link_discards` in
the program, and a test holds one to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# With fewer seeds a real player's discards say nothing: one that starts at a busy moment discards dozens.
LEAST_PLAYER_SEEDS = 3


def _plays_model(run: Mapping[str, Any]) -> bool:
    """Whether the player is the simulator's model, which no machine costs any picture."""
    return run.get("world") == "sim" and (run.get("video") or {}).get("control_discards") is None


def link_discards(run: Mapping[str, Any]) -> float | None:
    """Of a real player what it and its decoder threw away, less what they do without links; of the
    simulator's model all that it discards or had not come to at the end. `None` without a player, and where
    the run and its control run cannot be compared."""
    video = run.get("video")
    if video is None:
        return None
    if _plays_model(run):
        return float(video["picture_discards"] + (video.get("pictures_missed") or 0))
    decoder, control = video.get("decoder_drops"), video.get("control_decoder_drops")
    if video.get("control_discards") is None or (decoder is None) != (control is None):
        return None
    return float(video["picture_discards"] + (decoder or 0) - video["control_discards"] - (control or 0))


def discards_say(runs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the discards of these runs, of one scheme in one case, say anything."""
    known = [run for run in runs if link_discards(run) is not None]
    least = 1 if all(map(_plays_model, known)) else LEAST_PLAYER_SEEDS
    return len({run["seed"] for run in known}) >= least


def resent(run: Mapping[str, Any], paths: Iterable[str] = ()) -> float | None:
    """Packets sent again on those paths, or on all. Of a program's own sockets only what the links lost and
    dropped of theirs is known, and had to be sent again. `None` where a path is not there."""
    wanted = set(paths)
    found = [path for path in run["paths"] if not wanted or path["name"] in wanted]
    if len(found) < len(wanted):
        return None
    counts = [path.get("retransmitted_packets") for path in found]
    return float(sum(
        path["lost"] + path["queue_drops"] if count is None else count for path, count in zip(found, counts)))
