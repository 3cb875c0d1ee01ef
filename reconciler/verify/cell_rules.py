"""The contradictions looked for within one scenario folder, by the format of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from reconciler.resource.programs import find_program_of_results
from reconciler.rules.programs import load_program
from reconciler.rules.results.table import FORMATS
from reconciler.tree.findings import Gap, TreeFinding
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About, Table, apply_rules
from reconciler.verify.answers import ANSWER_RULES
from reconciler.verify.audit_settings import TEST_SETTINGS_RULES
from reconciler.verify.conf import CONF_RULES
from reconciler.verify.gaps import find_log_gaps
from reconciler.verify.placement import PLACEMENT_RULES
from reconciler.verify.power import POWER_CONTRADICTIONS
from reconciler.verify.power_readings import WATTS_CONTRADICTIONS
from reconciler.verify.runs import RUN_CONTRADICTIONS
from reconciler.verify.stated_results import STATED_RULES
from reconciler.verify.summary import SUMMARY_RULES
from reconciler.verify.systems import MEASUREMENTS_CONTRADICTIONS
from reconciler.verify.traces import TRACE_RULES
from reconciler.verify.verdict_text import VERDICT_WORD_RULES
from reconciler.verify.verdicts import VERDICT_RULES


class CellRules(Struct, frozen=True):
    """``find_gaps`` yields one gap for each file that a comparison needs and that is of no use."""

    tables: tuple[Table[CellView], ...]
    find_gaps: Callable[[CellView], Iterator[Gap]]


_LOADGEN_RULES = CellRules(
    (
        RUN_CONTRADICTIONS,
        CONF_RULES,
        MEASUREMENTS_CONTRADICTIONS,
        SUMMARY_RULES,
        PLACEMENT_RULES,
        POWER_CONTRADICTIONS,
        WATTS_CONTRADICTIONS,
        VERDICT_RULES,
        STATED_RULES,
        VERDICT_WORD_RULES,
        TEST_SETTINGS_RULES,
        ANSWER_RULES,
        TRACE_RULES,
    ),
    find_log_gaps,
)


def find_cell_rules(results: str) -> CellRules | None:
    """By the format of a folder's results; None for one that no folder shows."""
    program = find_program_of_results(results)
    found: CellRules | None = load_program(program).find_cell_rules(results) if program else _LOADGEN_RULES
    return found


def list_cell_rules() -> tuple[CellRules, ...]:
    return tuple(found for results in FORMATS if (found := find_cell_rules(results)) is not None)


def choose_cell_rules(view: CellView) -> CellRules:
    found = find_cell_rules(view.files.format.NAME)
    assert found is not None
    return found


def verify_cell(view: CellView, about: About) -> Iterator[TreeFinding]:
    """Yield every contradiction within one scenario folder."""
    for table in choose_cell_rules(view).tables:
        yield from apply_rules(table, view, about)
