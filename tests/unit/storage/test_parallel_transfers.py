"""Transfers at once: results in order, the first failure, and an end on request."""

from __future__ import annotations

import threading

import pytest

from reconciler.storage.parallel_transfers import TransferStoppedError, run_transfers


def test_results_are_in_the_order_of_the_items() -> None:
    assert run_transfers(range(20), lambda item: -item, threading.Event(), parallel=3) == [-n for n in range(20)]


@pytest.mark.parametrize("error", [ValueError, TransferStoppedError])
def test_a_failure_or_a_stop_from_elsewhere_ends_the_others(error: type[Exception]) -> None:
    stopped, begun = threading.Event(), []

    def transfer(item: int) -> None:
        begun.append(item)
        if item == 0 and error is TransferStoppedError:
            stopped.set()
        elif item == 0:
            raise error
        stopped.wait()

    with pytest.raises(error):
        run_transfers(range(9), transfer, stopped, parallel=2)
    assert len(begun) <= 3
    assert stopped.is_set()
