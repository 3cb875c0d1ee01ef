"""Output of `reconcile init --benchmark …`: the spec of a whole submission, and the documents that it names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reconciler.cli.shared.new_repository import propose_this_machine
from reconciler.errors import ReconcilerError, suggest_nearest
from reconciler.resource.quantities import join_listing, show_count
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.rules.ruleset import BenchmarkRules, Ruleset, normalise_category
from reconciler.spec.adapters import HarnessAdapter, describe_missing, list_adapters
from reconciler.spec.names import give_advice
from reconciler.spec.proposal import Proposal
from reconciler.spec.starter import NOTHING_READ
from reconciler.spec.starting_values import find_family
from reconciler.spec.submission_template import (
    FILL_IN,
    Wanted,
    list_required,
    list_starting_values,
    render_submission_spec,
)

_CALIBRATION = """\
# Calibration

How each model was quantized, with which data. `reconcile check` asks for this file in the closed and network divisions.

"""


class SubmissionRequest(Struct, frozen=True):
    """As typed. ``benchmarks``: names, or several with commas between them."""

    name: str
    round_name: str | None
    division: str
    category: str
    benchmarks: tuple[str, ...]
    system: str | None
    submitter: str
    harness: str = ""
    code: str = ""


def prepare_submission(request: SubmissionRequest, schema: str) -> Wanted:
    """Raises ReconcilerError for a round, a benchmark or a category that is not to be had."""
    ruleset = load_ruleset(request.round_name or list_rounds()[-1])
    names = [name.strip() for text in request.benchmarks for name in text.split(",") if name.strip()]
    adapter = _find_adapter(request.harness) if request.harness else None
    if adapter is not None and not names:
        names = _list_adapted(adapter, ruleset, request.category)
    rules = [_find_rules(ruleset, name, request.category) for name in dict.fromkeys(names)]
    for each in rules:
        if adapter is not None and each.name not in adapter.known.benchmarks:
            message, fix = describe_missing(adapter, each.name)
            raise ReconcilerError(message, fix=fix)
    system = request.system or "this-machine"
    family = find_family(system)
    if family is None:
        read = propose_this_machine()
    elif family.accelerator:
        counted = str(family.count)
        described = {"accelerator_model_name": family.accelerator, "accelerators_per_node": counted}
        read = Proposal({"accelerator": family.accelerator, "count": family.count}, described, ())
    else:
        read = NOTHING_READ
    return Wanted(
        name=request.name,
        ruleset=ruleset,
        submitter=request.submitter,
        division=request.division,
        category=request.category,
        system=system,
        benchmarks=rules,
        family=family,
        read=read,
        schema=schema,
        adapter=adapter,
        code=str(Path(request.code).resolve()) if request.code else "",
    )


def _find_adapter(name: str) -> HarnessAdapter:
    if (found := list_adapters().get(name)) is None:
        raise ReconcilerError(f"{name!r} is not an adapter", fix=give_advice(name, [*list_adapters()], what="adapter"))
    return found


def _list_adapted(adapter: HarnessAdapter, ruleset: Ruleset, category: str) -> list[str]:
    """What it runs, of the benchmarks that the round has for such a system."""
    own = [name for name in adapter.known.benchmarks if name in ruleset.benchmarks]
    able = [name for name in own if normalise_category(category) in ruleset.benchmarks[name].tables]
    if not able:
        runs = ", ".join(adapter.known.benchmarks)
        message = f"adapter {adapter.name} runs nothing that round {ruleset.round} asks of {category} systems"
        raise ReconcilerError(message, fix=f"name another --round or --category; it runs {runs}")
    return able


def _find_rules(ruleset: Ruleset, name: str, category: str) -> BenchmarkRules:
    official = ruleset.find_official_name(name)
    if official is None:
        gone = " any more" if name in ruleset.earlier else ""
        fix = f"{suggest_nearest(name, ruleset.benchmarks)}it has {', '.join(ruleset.benchmarks)}"
        raise ReconcilerError(f"round {ruleset.round} has no benchmark {name!r}{gone}", fix=fix)
    rules = ruleset.benchmarks[official]
    if normalise_category(category) not in rules.tables:
        able = [other for other, found in ruleset.benchmarks.items() if normalise_category(category) in found.tables]
        fix = f"it is for {join_listing(rules.tables)}; {category} has {', '.join(able)}"
        raise ReconcilerError(f"round {ruleset.round} does not ask {official} of {category} systems", fix=fix)
    return rules


def list_documents(wanted: Wanted) -> Mapping[str, str]:
    """Path → text of the documents that the spec names."""
    if not wanted.writes_calibration:
        return {}
    blanks = "\n".join(f"## {rules.name}\n\nNot written yet.\n" for rules in wanted.benchmarks)
    return {"documents/calibration.md": _CALIBRATION + blanks}


def describe_submission(wanted: Wanted, spec: str) -> list[str]:
    """Describe the written files, and the tasks left to the user."""
    cells = sum(len(list_required(wanted, rules)) for rules in wanted.benchmarks)
    started = list_starting_values(wanted)
    blanks = sum(line.count(FILL_IN) for line in render_submission_spec(wanted).splitlines()[3:])
    lines = [
        f"Wrote {spec}: {show_count(len(wanted.benchmarks), 'benchmark')}, {show_count(cells, 'required cell')} of the "
        f"{wanted.division} division for {wanted.system}, round {wanted.ruleset.round}.",
        *(f"Wrote {path}." for path in list_documents(wanted)),
    ]
    if started:
        lines.append(f"Values to begin with, from published results ({len(started)} of {cells} cells):")
        lines += [f"  {value.setting} {value.value}: {value.shown}, {value.source}" for value in started]
    if wanted.adapter is not None and wanted.adapter.known.notes:
        lines.append(f"About {wanted.adapter.name}: {' '.join(wanted.adapter.known.notes.split())}")
    lines.append(f"Left for you: {show_count(blanks, 'line')} marked '{FILL_IN.removeprefix('# ')}'.")
    return lines
