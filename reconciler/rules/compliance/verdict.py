"""The verdict of a compliance test as a value: reasons against it, notes, figures, and the texts of its verify
files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

PASS, FAIL = "TEST PASS", "TEST FAIL"  # the lines that the submission checkers look for


class AuditVerdict(Struct, frozen=True):
    """``reasons`` say with figures why it fails; empty when it passes. ``notes``: what is worth knowing though it
    passes, such as why the fallback was taken. ``files``: the texts of the verify files by name. ``figures``: what was
    compared, as text. ``by_speed``: it fails only because the scores of two runs are too far apart, so that either may
    be the outlier. ``where``: file and line of the first answer of the test that is wrong."""

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
    """One comparison of a test: its figures in the order of its text, and why it fails. ``by_speed``: two scores are
    too far apart, and nothing else is wrong. ``where``: as of the verdict."""

    reasons: tuple[str, ...] = ()
    figures: Mapping[str, str] = field(default_factory=dict)
    by_speed: bool = False
    where: str = ""

    @property
    def passed(self) -> bool:
        return not self.reasons


def verify_text(title: str, part: Part) -> str:
    """The text of a verify file. TEST PASS is on a line of its own; a failure names its reasons."""
    lines = [title, *(f"{name}: {value}" for name, value in part.figures.items())]
    if part.passed:
        lines.append(PASS)
    else:
        lines += [f"{FAIL}: {reason}" for reason in part.reasons]
    return "".join(f"{line}\n" for line in lines)


def merge_parts(figures: Iterable[tuple[str, Part]]) -> dict[str, str]:
    """The figures of several parts, each under its part's name."""
    return {f"{name}.{key}": value for name, part in figures for key, value in part.figures.items()}
