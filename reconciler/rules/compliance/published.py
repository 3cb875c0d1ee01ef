"""Compare published verify files with the verdicts computed from their logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import LogError
from reconciler.loadgen.log_files import BASELINE, COMPLIANCE, VERIFY_ACCURACY
from reconciler.resource.ruled_values import TestRules
from reconciler.rules.compliance.definition import (
    FAIL,
    PASS,
    AuditVerdict,
    MissingLogError,
    Part,
    RunLogs,
    VerdictInputs,
)
from reconciler.rules.compliance.judging import find_test


class Judged(Struct, frozen=True):
    """One verify file: whether it states a pass, and whether its logs pass. ``reasons``: why they do not. ``sure``: if
    the two differ, the file is wrong."""

    file: str
    said: bool
    found: bool
    again: AuditVerdict
    sure: bool

    @property
    def reasons(self) -> tuple[str, ...]:
        lines = self.again.files[self.file].splitlines()
        return tuple(line.removeprefix(f"{FAIL}: ") for line in lines if line.startswith(FAIL)) or self.again.reasons


class Published(Struct, frozen=True):
    """Published folder of a test, with the runs for comparison. ``rules``: None for a test that the round does not
    have; ``metrics``: the benchmark's metrics; ``text``: returns a file below the folder by path, None if absent."""

    test: str
    rules: TestRules | None
    scenario: str
    metrics: tuple[str, ...]
    audit: RunLogs
    performance: RunLogs
    accuracy: RunLogs
    text: Callable[[str], str | None]


def judge_files(published: Published) -> Iterator[Judged]:
    """Judge each verify file that exists and whose logs are complete."""
    test, rules = published.test, published.rules
    expected = find_test(test).own_files if rules is None else [item.file for item in rules.expected]
    for file in dict.fromkeys(expected):
        text = published.text(file)
        if text is None:
            continue
        first = passing = by_type = None
        for verdict in _list_verdicts(published, file):
            if file in verdict.files:
                first = first or verdict
                by_type = by_type or (verdict if verdict.by_type else None)
                if is_passed(verdict.files[file], file, rules):
                    passing = verdict
                    break
        again = passing or by_type or first
        if again is not None:
            said = is_passed(text, file, rules)
            yield Judged(file, said, passing is not None, again, sure=said or find_test(test).sure)


def _list_verdicts(published: Published, file: str) -> Iterator[AuditVerdict]:
    """Return one verdict per possible answer type, since no file states the type."""
    test = find_test(published.test)
    speed, limits = file == test.speed_file, published.rules.limits if published.rules else {}
    names = (BASELINE, COMPLIANCE) if test.asks_scorer else ()
    reports = {name: published.text(f"accuracy/{name}") for name in names}
    if test.scored:
        reports = {COMPLIANCE: published.text(VERIFY_ACCURACY)}  # contains the scorer's output
    for dtype in ("",) if speed else test.dtypes or ("",):
        question = VerdictInputs(
            audit=replace(published.audit, answers=None) if speed else published.audit,
            performance=published.performance,
            accuracy=published.accuracy,
            scenario=published.scenario,
            dtype=dtype,
            limits={name: str(limit.value) for name, limit in limits.items()},
            metrics=published.metrics,
            reports={name: text for name, text in reports.items() if text is not None},
            known_answers=Part() if speed else None,
        )
        with suppress(MissingLogError, LogError, KeyError):  # KeyError: the round does not have the limit
            yield test.judge(question)


def is_passed(text: str, file: str, rules: TestRules | None) -> bool:
    """Return True if a verify file contains the text that the round's checkers look for."""
    lines = text.splitlines()
    expected = [item for item in rules.expected if item.file == file] if rules else []
    if not expected:
        return PASS in (line.strip() for line in lines)
    return all(item.is_in(lines) for item in expected)
