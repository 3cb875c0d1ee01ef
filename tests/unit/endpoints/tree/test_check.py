from __future__ import annotations

import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.endpoints.check.engine import ALL_ENDPOINTS_RULES, check_endpoints
from reconciler.endpoints.tree.point_file import write_yaml
from reconciler.resource.rules import Severity
from reconciler.storage.documents import parse_yaml_mapping
from reconciler.tree.rule_engine import INTERNAL
from tests.unit.check.damage import change_number
from tests.unit.endpoints.tree.curves import make_curve, make_submission, write_submission
from tests.unit.endpoints.tree.mutations import MUTATIONS, Mutation

# Rules that a mutation breaks in addition to its own.
ALSO: dict[str, set[str]] = {
    "no docs": {"shared-path-resolution"},
    "no src": {"shared-path-resolution"},
    "a point without description": {"maximal-engagement"},
    "no maximum concurrency": {"region-basis"},
    "a maximum of 32": {"offline-point-present"},
    "a minimum at one point only": {"system-description-consistency"},
    "a minimum of 33": {"system-description-valid"},
    "a cohort of no form": {"seed-set-adoption"},
    "two seed sets": {"seed-set-membership"},
    "another seed": {"point-as-run"},
    "no seed set": {"point-disclosure-complete"},
    "concurrency as text": {"point-as-run"},
    "Poisson arrivals": {"benchmark-type-consistency", "point-as-run"},
    "points of two kinds": {"point-as-run"},
    "an unknown region": {"region-placement"},
    "two Offline points": {"accuracy-coverage"},
    "another point elected": {"accuracy-coverage"},
    "too many points": {
        "config-file-present",
        "measurement-points-present",
        "result-summary-present",
        "system-description-present",
    },
    "no point of low concurrency": {"accuracy-coverage", "point-count"},
    "no point of medium concurrency": {"accuracy-coverage", "point-count"},
    "no point of high concurrency": {"accuracy-coverage", "offline-point-present", "point-count", "tps-utilization"},
    "a point beyond the margin": {"point-as-run", "point-dirname-concurrency"},
    "a model that is not of the round": {"model-name-consistency"},
    "a model's name not canonical": {"model-name-consistency"},
    "TPOT without its 90th percentile": {"figures-possible"},
    "TPOT of 0": {"figures-possible"},
    "a short run": {"figures-possible", "tps-utilization"},
    "no accuracy anywhere": {"accuracy-coverage"},
    "accuracy without any entry": {"accuracy-coverage"},
    "an accuracy entry without name": {"accuracy-coverage"},
    "Offline below the maximum's rate": {"tps-utilization"},
}


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Mapping[bool, Path]:
    """Folders of a curve with the maximum elected, and of one with a dedicated Offline run."""
    folder = tmp_path_factory.mktemp("accepted")
    return {
        dedicated: write_submission(folder / str(dedicated), make_submission(make_curve(dedicated=dedicated)))
        for dedicated in (False, True)
    }


def find_rules(root: Path) -> dict[Severity, set[str]]:
    found: dict[Severity, set[str]] = {severity: set() for severity in Severity}
    for finding in check_endpoints(root).findings:
        found[finding.severity].add(finding.rule.id.removeprefix("curve."))
    return found


@pytest.mark.parametrize("dedicated", [False, True])
def test_what_is_rendered_is_accepted(accepted: Mapping[bool, Path], dedicated: bool) -> None:
    found = find_rules(accepted[dedicated])
    assert found[Severity.ERROR] == set()
    assert found[Severity.WARNING] == {"steady-state-basis"}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_spoiled_submission_is_refused(accepted: Mapping[bool, Path], tmp_path: Path, mutation: Mutation) -> None:
    root = tmp_path / "ACME/pending"
    shutil.copytree(accepted[mutation.dedicated], root)
    mutation.spoil(root)
    found = find_rules(root)
    wanted = mutation.ours or mutation.rule
    assert wanted in found[Severity.ERROR] | (found[Severity.WARNING] if mutation.warning else set())
    broken = set().union(*found.values()) - {"steady-state-basis"}
    assert broken == {wanted, *ALSO.get(mutation.name, ())}


_AGENTIC = Path("results/box/kimi-k3")
_AT_ITS_BARS = (0.5832, 0.935, 425.0)


def write_agentic(root: Path, point: str, inline: object, swe_bench: object, tokens: float | None) -> None:
    """A point's results: shares from 0 to 1; None leaves one out."""
    folder = root / _AGENTIC / point
    entries = [
        {"dataset_name": name, "score": score, "unit_samples": 10, "num_repeats": 1, "dataset_type": kind}
        for name, score, kind in (("performance", inline, "performance"), ("swe_bench", swe_bench, "accuracy"))
        if score is not None
    ]
    (folder / "accuracy_results.json").write_text(json.dumps({"accuracy_scores": entries}))
    summary = json.loads((folder / "result_summary.json").read_bytes())
    if tokens is not None:
        summary["output_sequence_lengths_full_run"] = {"output_sequence_lengths": {"avg": tokens}}
    (folder / "result_summary.json").write_text(json.dumps(summary))


@pytest.fixture(scope="module")
def agentic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A curve of an agentic benchmark at every bar, its pattern written in by hand: nothing renders one."""
    root = write_submission(tmp_path_factory.mktemp("agentic"), make_submission(make_curve(model="kimi-k3")))
    for folder in (root / _AGENTIC).glob("r*"):
        values = json.loads(json.dumps(parse_yaml_mapping((folder / "point.yaml").read_bytes()).values))
        values["runtime_settings"]["load_pattern"] = "agentic_inference"
        (folder / "point.yaml").write_bytes(write_yaml(values))
        inline, swe_bench, tokens = _AT_ITS_BARS
        scored = (folder / "accuracy_results.json").exists()
        write_agentic(root, folder.name, inline, swe_bench if scored else None, tokens)
    return root


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (_AT_ITS_BARS, {}),
        ((0.5831, 0.935, 520), {"agentic-accuracy-inline": "inline accuracy 58.31"}),
        ((58.32, 0.935, 425), {"agentic-accuracy-inline": "the inline score is not a share from 0 to 1"}),
        ((None, 0.935, 425), {"agentic-accuracy-inline": "no score of the performance run"}),
        ((0.5832, 0.931, 425), {"agentic-accuracy-swebench": "swe_bench mean 93.40"}),
        ((0.5832, 0.935, 424.9), {"agentic-osl-range": "424.9 output tokens a turn"}),
        ((0.5832, 0.935, 520.1), {"agentic-osl-range": "520.1 output tokens a turn"}),
    ],
)
def test_an_agentic_curve_is_required_to_meet_its_bars(
    results: tuple[object, object, float | None], said: dict[str, str], agentic: Path, tmp_path: Path
) -> None:
    root = tmp_path / "submission"
    shutil.copytree(agentic, root)
    write_agentic(root, "r1", *results)
    own = ("agentic-accuracy-inline", "agentic-accuracy-swebench", "agentic-osl-range")
    found = [(f.rule.id.removeprefix("curve."), f.complaint.found) for f in check_endpoints(root).findings]
    assert sorted(pair for pair in found if pair[0] in own) == sorted(said.items())
    assert INTERNAL.id not in dict(found)


def survive(accepted: Path, work: Path, seeds: range) -> int:
    """How many of the damaged submissions something was found about."""
    found = 0
    for seed in seeds:
        root = work / "ACME/pending"
        shutil.copytree(accepted, root)
        choose = random.Random(seed)
        for _ in range(choose.randint(1, 4)):
            change_number(root, choose)
        report = check_endpoints(root)
        broken = [finding.complaint.found for finding in report.findings if finding.rule == INTERNAL]
        assert not broken, f"seed {seed}: {broken}"
        found += any(finding.severity is Severity.ERROR for finding in report.findings)
        shutil.rmtree(root)
    return found


def test_no_number_breaks_a_rule(accepted: Mapping[bool, Path], tmp_path: Path) -> None:
    assert survive(accepted[False], tmp_path, range(6)) > 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_number_of_many_breaks_a_rule(accepted: Mapping[bool, Path], tmp_path: Path) -> None:
    assert survive(accepted[True], tmp_path, range(100, 400)) > 100


def test_every_mutation_names_a_rule_of_ours() -> None:
    known = {rule.id for rule in ALL_ENDPOINTS_RULES}
    assert {f"curve.{mutation.ours or mutation.rule}" for mutation in MUTATIONS} <= known
