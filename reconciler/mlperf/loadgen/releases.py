"""Which release of LoadGen carries the seeds of a round: they are compiled into it, and its package's version says
nothing of rounds. Read from the libraries themselves."""

from __future__ import annotations

from collections.abc import Mapping

# Round → a release of mlcommons-loadgen whose built-in mlperf.conf has the round's seeds.
RELEASES: Mapping[str, str] = {"v4.1": "5.0.5", "v5.1": "5.1.2", "v6.0": "6.0.8", "v6.1": "6.0.17"}


def explain_install(round_name: str) -> str:
    """The fix for a LoadGen of another round: an environment of its own, so that one repository can serve several."""
    release = RELEASES.get(round_name)
    wanted = f"mlcommons-loadgen=={release}" if release else f"the LoadGen of round {round_name}"
    return (
        f"pip install {wanted}; beside other rounds, install it with mlperf-reconciler in an environment of its own, "
        "and let the system run there: `launcher: [env]` and `python: ENVIRONMENT/bin/python`"
    )
