"""Options of backends: one declaration gives the type, the default and what plans know of them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.catalog import BACKENDS, CudaRunOptions, OpenaiRunOptions, Option, TensorrtEngineOptions, list_options


def test_an_option_is_read_with_the_type_and_the_default_of_its_declaration() -> None:
    nothing = TensorrtEngineOptions({})
    assert (nothing.optimization_level, nothing.tf32, nothing.profiles) == (3, False, "")
    given = TensorrtEngineOptions({"optimization_level": 0, "tf32": True, "profiles": "1,8", "of_another": 1})
    assert (given.optimization_level, given.tf32, given.profiles) == (0, True, "1,8")


@pytest.mark.parametrize("value", [None, 0])
def test_nothing_given_means_the_default(value: Any) -> None:
    assert OpenaiRunOptions({"concurrency": value}).concurrency == OpenaiRunOptions.concurrency.default
    assert CudaRunOptions({"lanes": value}).lanes == (0 if value == 0 else CudaRunOptions.lanes.default)


def test_plans_know_what_a_backend_reads() -> None:
    declared = list_options(TensorrtEngineOptions)
    assert declared == BACKENDS["tensorrt"].engine
    assert all(isinstance(option, Option) and option.name == name for name, option in declared.items())
