"""What scorers print under NumPy 2 is read, and said to be in a form that the official checkers do not read."""

from __future__ import annotations

from decimal import Decimal

import pytest

from reconciler.rules.accuracy import parse_accuracy

ROUGE = "{{'rouge1': {0}, 'rouge2': {0}, 'gen_len': {1}, 'gen_num': 24576, 'tokens_per_sample': 294.4}}"


@pytest.mark.parametrize(
    ("metric", "line", "value", "numpy"),
    [
        ("ROUGE1", ROUGE.format("np.float64(80.2)", "np.int64(1505)"), "80.2", True),
        ("ROUGE2", ROUGE.format("np.float64(80.2)", "np.int64(1505)"), "80.2", True),
        ("GEN_LEN", ROUGE.format("np.float64(80.2)", "np.int64(1505)"), "1505", True),
        ("TOKENS_PER_SAMPLE", ROUGE.format("np.float64(80.2)", "np.int64(1505)"), "294.4", False),
        ("GEN_LEN", ROUGE.format("'80.2'", "1505"), "1505", False),
        ("ROUGE1", ROUGE.format("'80.2'", "1505"), "80.2", False),
        ("mAP", "{'Car': np.float64(0.7), 'Total': np.float64(0.5434)}", "0.5434", True),
        ("mAP", "mAP=37.5", "37.5", False),
    ],
)
def test_scalars_of_numpy_are_numbers(metric: str, line: str, value: str, numpy: bool) -> None:
    (measured,) = parse_accuracy(f"{line}\n", [metric]).metrics[metric]
    assert (measured.value, measured.numpy) == (Decimal(value), numpy)
