"""Verdict of a compliance test as a value: reasons for failing, notes, figures, and the texts of its verify files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

PASS, FAIL = "TEST PASS", "TEST FAIL"  # the lines that the submission checkers look for


class AuditVerdict(Struct, frozen=True):
    """Verdict of a test. ``reasons``: why it fails, with figures; empty if it passes. ``notes``: remarks on a pass,
    such as why the fallback was used. ``files``: texts of the verify files by name. ``figures``: the compared values,
    as text. ``by_speed``: it fails only because the scores of two runs differ too much, so either may be the outlier.
    ``where``: file and line of the test's first wrong answer."""

    test: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    by_speed: bool = False
    where: str = ""

    @property
    def passed(self) -> bool:
        return not self.reasons


class Part(Struct, frozen=True):
    """One comparison of a test: its figures in the order of its text, and why it fails. ``by_speed``: the only problem
    is that two scores differ too much. ``where``: as in the verdict."""

    reasons: tuple[str, ...] = ()
    figures: Mapping[str, str] = field(default_factory=dict)
    by_speed: bool = False
    where: str = ""

    @property
    def passed(self) -> bool:
        return not self.reasons


def verify_text(title: str, part: Part) -> str:
    """Return the text of a verify file. TEST PASS is on a separate line; a failure lists its reasons."""
    lines = [title, *(f"{name}: {value}" for name, value in part.figures.items())]
    if part.passed:
        lines.append(PASS)
    else:
        lines += [f"{FAIL}: {reason}" for reason in part.reasons]
    return "".join(f"{line}\n" for line in lines)


def merge_parts(figures: Iterable[tuple[str, Part]]) -> dict[str, str]:
    """Merge the figures of several parts, each under its part's name."""
    return {f"{name}.{key}": value for name, part in figures for key, value in part.figures.items()}
