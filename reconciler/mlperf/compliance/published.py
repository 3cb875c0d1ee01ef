"""Verify files as somebody published them, against the verdicts that the logs beside them give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from reconciler.errors import LogError
from reconciler.mlperf.audit_rules import TestRules
from reconciler.mlperf.compliance.judging import DTYPES, JUDGES, MissingLogError
from reconciler.mlperf.compliance.verdict import FAIL, PASS, AuditVerdict
from reconciler.mlperf.log_names import VERIFY_ACCURACY, VERIFY_PERFORMANCE

# TEST04 as two runs, before there was one.
UNIQUE, SAME = "TEST04-A", "TEST04-B"
# Its verdict depends on the tokenizer, of which no file says anything: only a pass can be contradicted.
_UNSURE = frozenset({"TEST06"})


@dataclass(frozen=True, slots=True)
class Judged:
    """One verify file: whether it says that the test is passed, and whether its logs do. ``reasons``: why they do not.
    ``sure``: what it says is wrong where the two differ."""

    file: str
    said: bool
    found: bool
    again: AuditVerdict
    sure: bool = True

    @property
    def reasons(self) -> tuple[str, ...]:
        lines = self.again.files[self.file].splitlines()
        return tuple(line.removeprefix(f"{FAIL}: ") for line in lines if line.startswith(FAIL)) or self.again.reasons


def judged_files(
    test: str,
    rules: TestRules | None,
    text: Callable[[str], str | None],
    judge: Callable[[str, str], AuditVerdict],
) -> Iterator[Judged]:
    """Every verify file of a test that is there (``text`` by its name) and whose logs are whole.

    ``judge`` gets the file and the type that answers are read as ("" for the script's default); it raises
    MissingLogError, LogError, or KeyError for a limit that the round does not have.
    """
    for file in _verify_files(test, rules):
        published = text(file)
        if published is None:
            continue
        found = []
        # No file says as what the answers were read: one type that passes is enough.
        for dtype in DTYPES.get(test, ("",)) if file == VERIFY_ACCURACY else ("",):
            try:
                verdict = judge(file, dtype)
            except (MissingLogError, LogError, KeyError):
                continue
            if file in verdict.files:
                found.append(verdict)
        passing = [verdict for verdict in found if passes(verdict.files[file], file, rules)]
        if found:
            again, said = (passing or found)[0], passes(published, file, rules)
            yield Judged(file, said, bool(passing), again, sure=said or test not in _UNSURE)


def passes(text: str, file: str, rules: TestRules | None) -> bool:
    """Whether a verify file says what the round's checkers want to read in it."""
    lines = text.splitlines()
    expected = [item for item in rules.expected if item.file == file] if rules else []
    if not expected:
        return PASS in (line.strip() for line in lines)
    return all(item.stands_in(lines) for item in expected)


def _verify_files(test: str, rules: TestRules | None) -> tuple[str, ...]:
    if test == UNIQUE:
        return (VERIFY_PERFORMANCE,)
    if test not in JUDGES or rules is None:
        return ()
    return tuple(dict.fromkeys(expected.file for expected in rules.expected))
