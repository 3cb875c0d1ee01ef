"""The seeds that the installed LoadGen carries, read from its library as bytes: nothing is loaded or run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

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
