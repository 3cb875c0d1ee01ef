"""What all passes need: no verdict of theirs depends on how fast the machine was during two short runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reconciler.rules.compliance.scores import Slack


def allow_any_speed(patch: pytest.MonkeyPatch, percent: float = 1e6) -> None:
    """Let a compliance test's score differ from its run's by so much, whatever the round says."""
    patch.setattr(Slack, "from_limits", classmethod(lambda cls, *_: cls(usual=percent, when_short=percent)))


@pytest.fixture(scope="package", autouse=True)
def _any_speed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        allow_any_speed(patch)
        yield
