"""Inputs and answer of a sample: for each of its pairs, how likely the item is clicked, and whether it was clicked, as
the official script reads them."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.run.one_call import OneCall
from harness.run.qsl import Arrays

DENSE = 13
# For each of the 26 categorical features: values per pair, and rows of its table.
MULTI_HOT = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)
TABLE_ROWS = (
    *(40_000_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 40_000_000, 3_067_956, 405_282, 10),
    *(2_209, 11_938, 155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108, 36),
)
SPARSE = sum(MULTI_HOT)
LEAST_PAIRS, MOST_PAIRS = 100, 700  # per sample
OUTPUT = "probability"
OUTPUTS = {OUTPUT: ((1,), "float32")}
RESPONSE_DTYPE = "float32"


def loop(sample: Arrays) -> Generator[Arrays, Outputs, NDArray[np.float32]]:
    """Map "dense" [pairs, 13], "sparse" [pairs, 214] and "labels" [pairs] to float32 [pairs, 2]. Samples of different
    sizes share batches of pairs."""
    found = yield {"dense": sample["dense"], "sparse": sample["sparse"]}
    return answer_pairs(found, sample)


def answer_pairs(outputs: Outputs, given: Arrays) -> NDArray[np.float32]:
    """Join the network's answer for pairs with their "labels": float32 [pairs, 2]."""
    return np.stack([outputs[0].reshape(-1).astype(np.float32, copy=False), given["labels"]], axis=1)


ONE_CALL = OneCall(inputs=("dense", "sparse"), least_rows=LEAST_PAIRS, most_rows=MOST_PAIRS, answer=answer_pairs)
