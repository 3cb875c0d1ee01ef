"""What may stand where in a round file, and what is said of a name that may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.mlperf.rules.round_form import (
    check_form,
)
from reconciler.mlperf.rules.ruled_value import RoundFileError

MAPPING = "a mapping is expected here"


def refusal(check: Callable[..., object], *given: Any) -> tuple[str, str, str]:
    with pytest.raises(RoundFileError) as caught:
        check(*given)
    return caught.value.place, caught.value.problem, caught.value.fix


def test_what_is_no_round_at_all_is_told() -> None:
    for document in ([], None, "text"):
        assert refusal(check_form, document) == ("", MAPPING, "see the newest round file")
