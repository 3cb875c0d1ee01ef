"""The seeds that the installed LoadGen carries, read from its library as bytes: nothing is loaded or run.

They are compiled into it, and its package's version says nothing of rounds: which release carries whose seeds was read
from the libraries themselves.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

# Round → a release of mlcommons-loadgen whose built-in mlperf.conf has the round's seeds and all that the round takes
# from it: before 6.0.10, v6.0's lacks wan-2.2-t2v-a14b, and equal issue for gpt-oss-120b-interactive.
RELEASES: Mapping[str, str] = {"v4.1": "5.0.5", "v5.0": "5.0.18", "v5.1": "5.1.2", "v6.0": "6.0.10", "v6.1": "6.0.17"}
# Rounds whose seeds were in a file, mlperf.conf, beside LoadGen: no release has them.
UNAVAILABLE = frozenset({"v0.7", "v1.0", "v1.1", "v2.0", "v2.1", "v3.0", "v3.1", "v4.0"})

IMPORT_ONLY = (
    "declare a newer round; results of this one can only be read: reconcile adopt TREE, reconcile import LOGDIR"
)

_SEED = re.compile(rb"\*\.\*\.(qsl_rng_seed|sample_index_rng_seed|schedule_rng_seed) = ([0-9]{1,20})")
_LIBRARY = "mlperf_loadgen*.so"


def find_loadgen_library(folders: list[str] | None = None) -> Path | None:
    """As the interpreter would find it."""
    for folder in sys.path if folders is None else folders:
        found = sorted(Path(folder).glob(_LIBRARY)) if folder and Path(folder).is_dir() else []
        if found:
            return found[0]
    return None


def read_seeds(library: Path) -> dict[str, int]:
    """By LoadGen's names; none where the library has no configuration built in, as those of old rounds."""
    try:
        return {name.decode(): int(value) for name, value in _SEED.findall(library.read_bytes())}
    except OSError:
        return {}


def read_seeds_here() -> dict[str, int]:
    """Of this interpreter's LoadGen; none where there is none."""
    library = find_loadgen_library()
    return read_seeds(library) if library is not None else {}


def find_other_seeds(asked: Mapping[str, object], carried: Mapping[str, int]) -> bool:
    """Whether a run would be made with other seeds than it is asked for, which refuses it once it has ended."""
    return any(name in asked and str(asked[name]) != str(seed) for name, seed in carried.items())


def explain_unavailable(round_name: str) -> str:
    """Why nothing can be run in a round; "" where its LoadGen can be had."""
    if round_name not in UNAVAILABLE:
        return ""
    return (
        f"no release of mlcommons-loadgen carries the seeds of round {round_name}: rounds before v4.1 read them from "
        "a file beside LoadGen"
    )


def explain_install(round_name: str) -> str:
    """The fix for a LoadGen of another round: an environment of its own, so that one repository can serve several."""
    if round_name in UNAVAILABLE:
        return IMPORT_ONLY
    release = RELEASES.get(round_name)
    wanted = f"mlcommons-loadgen=={release}" if release else f"the LoadGen of round {round_name}"
    return (
        f"pip install {wanted}; beside other rounds, `reconcile doctor --fix` installs it in an environment of its "
        "own; let the system run there: `launcher: [env]` and `python: ENVIRONMENT/bin/python`"
    )
