"""The contradictions looked for within one scenario folder, by the format of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from reconciler.rules.results import endpoints_results, loadgen_logs
from reconciler.tree.findings import Gap, TreeFinding
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About, Table, apply_rules
from reconciler.verify.answers import ANSWER_RULES
from reconciler.verify.audit_settings import TEST_SETTINGS_RULES
from reconciler.verify.conf import CONF_RULES
from reconciler.verify.endpoints import ENDPOINTS_CONTRADICTIONS
from reconciler.verify.gaps import find_log_gaps, find_result_gaps
from reconciler.verify.placement import PLACEMENT_RULES
from reconciler.verify.power import POWER_CONTRADICTIONS
from reconciler.verify.runs import RUN_CONTRADICTIONS
from reconciler.verify.stated import STATED_RULES
from reconciler.verify.summary import SUMMARY_RULES
from reconciler.verify.systems import MEASUREMENTS_CONTRADICTIONS
from reconciler.verify.traces import TRACE_RULES
from reconciler.verify.verdict_words import VERDICT_WORD_RULES
from reconciler.verify.verdicts import VERDICT_RULES
from reconciler.verify.watts import WATTS_CONTRADICTIONS


class CellRules(Struct, frozen=True):
    """``find_gaps`` yields one gap for each file that a comparison needs and that is of no use."""

    tables: tuple[Table[CellView], ...]
    find_gaps: Callable[[CellView], Iterator[Gap]]


CELL_RULES = {
    loadgen_logs.NAME: CellRules(
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
    ),
    endpoints_results.NAME: CellRules((ENDPOINTS_CONTRADICTIONS, MEASUREMENTS_CONTRADICTIONS), find_result_gaps),
}


def choose_cell_rules(view: CellView) -> CellRules:
    return CELL_RULES[view.files.format.NAME]


def verify_cell(view: CellView, about: About) -> Iterator[TreeFinding]:
    """Yield every contradiction within one scenario folder."""
    for table in choose_cell_rules(view).tables:
        yield from apply_rules(table, view, about)
