"""The rehearsal of ``llama3_1_8b`` under the name of the smaller set."""

from __future__ import annotations

from functools import partial

from harness.benchmarks.llama3_1_8b import rehearsal
from harness.benchmarks.llama3_1_8b_edge import PUBLISHED

write_rehearsal = partial(rehearsal.write_rehearsal, file=PUBLISHED.files[0])
