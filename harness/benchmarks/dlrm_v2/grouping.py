"""Which user-item pairs make a sample: 100 to 700 of them in a row, as the reference draws them.

For the published day 23 this gives dlrm_trace_of_aggregated_samples.txt byte for byte: 330,067 samples.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SEED = 123
# tools/dist_quantile.txt of recommendation/dlrm_v2 in mlcommons/inference: each twentieth of all samples.
SIZES = (100, 100, *[200] * 12, 300, 300, 400, 500, 600, 700)
_DRAWN = 1 << 16


def count_evaluated(rows: int) -> int:
    """The first half of the day is evaluated; calibration takes from the second."""
    return rows // 2 + rows % 2


def group_pairs(pairs: int) -> NDArray[np.int64]:
    """Find where samples begin, and last the end of the last, which is as long as pairs are left."""
    random = np.random.RandomState(SEED)
    sizes = np.array(SIZES)
    ends: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
    while ends[-1][-1] < pairs:
        drawn = sizes[random.randint(0, len(sizes), _DRAWN)]
        ends.append(ends[-1][-1] + np.cumsum(drawn))
    bounds = np.concatenate(ends)
    last = int(np.searchsorted(bounds, pairs))
    return np.append(bounds[:last], pairs)
