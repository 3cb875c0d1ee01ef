"""Find schemas and the starter spec, inside the installed wheel or at the top of a checkout.

``pyproject.toml`` copies them to ``reconciler/spec/data`` in the wheel. A checkout (and an editable install) has no
such folder, so its top-level ``schemas/`` and ``specs/`` are read, and edits take effect at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

SCHEMA: Final = "schemas/submission.schema.json"
UNIT: Final = "unit"  # key of a schema field: the unit of its stored value
_WHEEL: Final = Path(__file__).parents[1] / "spec" / "data"
_CHECKOUT: Final = Path(__file__).parents[2]


def find_shipped(name: str) -> Path:
    """Return the file shipped as ``name``: "schemas/submission.schema.json", "specs/quickstart.yaml", as in a checkout.

    Raises FileNotFoundError, naming both places, if neither has it, because the installation is then damaged.
    """
    for folder in (_WHEEL, _CHECKOUT):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{name} is in neither {_WHEEL} nor {_CHECKOUT}: reinstall mlperf-reconciler")


def read_shipped(name: str) -> bytes:
    return find_shipped(name).read_bytes()
