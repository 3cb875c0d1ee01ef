"""Whatever the official checkers refuse, `check` calls an error, so that `package` refuses it: their rules as a table,
and trees with one fault each before them and before `check`.

``INFERENCE_CHECKOUT`` names a checkout of mlcommons/inference of the newest round, ``INFERENCE_CHECKOUT_V5_1`` one of
v5.1, whose only checker is the older one, ``PUBLISHED_V5_1`` a folder with published trees of a few submitters of v5.1.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler.check.engine import check_tree, list_rules
from reconciler.resource.rules import Severity
from reconciler.rules.rounds import load_ruleset
from tests.shared import need
from tests.unit.check.conftest import clean_trees, logs
from tests.unit.check.made import ROUND, change_system, copy_tree, set_log
from tests.unit.check.mutations import MUTATIONS, networked
from tests.unit.check.written import as_legacy

__all__ = ["clean_trees", "logs"]

TABLE = YAML(typ="safe").load(Path(__file__).with_name("official_rules.yaml"))
SUBMISSION = "tools/submission"
NEWER, OLDER, ALONE = "submission_checker.main", "submission_checker_old", "submission_checker"
# Checker, round, variable that names its checkout.
CHECKERS = {
    "newer": (NEWER, ROUND, "INFERENCE_CHECKOUT"),
    "older": (OLDER, ROUND, "INFERENCE_CHECKOUT"),
    "older of v5.1": (ALONE, "v5.1", "INFERENCE_CHECKOUT_V5_1"),
}
RUN = """
import contextlib, importlib, io, json, logging, os, sys

class Errors(logging.Handler):
    def emit(self, record):
        if record.levelno >= logging.ERROR:
            said.append(record.getMessage())

name, round_name, *trees = sys.argv[1:]
sys.path.insert(0, os.getcwd())
module = importlib.import_module(name)
for tree in trees:
    said = []
    logging.getLogger().handlers[:] = [Errors()]
    sys.argv = [name, "--input", tree, "--version", round_name, "--csv", f"{tree}.csv"]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            status = module.main()
    except BaseException as error:
        status = f"{type(error).__name__}: {error}"
    print(json.dumps([status, said]), flush=True)
"""


def find_checkout(variable: str) -> Path:
    need("yaml")
    if not (named := os.environ.get(variable)):
        pytest.skip(f"{variable} names no checkout of mlcommons/inference")
    return Path(named) / SUBMISSION


def list_answers(checker: str) -> Iterator[tuple[str, str | list[str]]]:
    """Place of a check or a message → what the table says of it."""
    for place, found in TABLE[checker].items():
        yield from (
            ((f"{place}: {begins}", said) for begins, said in found.items())
            if isinstance(found, dict)
            else [(place, found)]
        )


@pytest.mark.parametrize("checker", ["newer", "older"])
def test_each_answer_is_a_rule_of_check_or_a_reason(checker: str) -> None:
    known = {rule.id for rule in list_rules()}
    for place, said in list_answers(checker):
        assert isinstance(said, str) or (said and known >= set(said)), place


@pytest.mark.slow
def test_the_table_has_every_check_of_the_newer_checker() -> None:
    folder = find_checkout("INFERENCE_CHECKOUT") / "submission_checker/checks"
    found = {
        f"{parent.name}.{call.args[0].attr}"
        for path in folder.glob("*.py")
        for parent in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(parent, ast.ClassDef)
        for call in ast.walk(parent)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "self.checks.append"
        if isinstance(call.args[0], ast.Attribute)
    }
    assert found == set(TABLE["newer"])


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["older", "older of v5.1"])
def test_the_table_has_every_error_of_the_older_checker(checker: str) -> None:
    name, _, variable = CHECKERS[checker]
    tree = ast.parse((find_checkout(variable) / f"{name}.py").read_text(encoding="utf-8"))
    unanswered = []
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "log.error":
                message = "".join(_list_texts(call.args[0]))
                if not any(message.startswith(begins) for begins in TABLE["older"].get(function.name, ())):
                    unanswered.append(f"{function.name}: {message}")
    assert unanswered == []


def _list_texts(node: ast.expr) -> Iterator[str]:
    """The text of a message, ``{}`` for each value in it."""
    match node:
        case ast.BinOp(left=left, right=right):
            yield from (*_list_texts(left), *_list_texts(right))
        case ast.JoinedStr(values=values):
            for value in values:
                yield from _list_texts(value)
        case ast.Constant(value=value):
            yield str(value)
        case _:
            yield "{}"


def enter_in(root: Path, division: str) -> None:
    """A tree of the closed division as one of another."""
    (root / "closed").rename(root / division)
    if not any((root / division).glob("Acme/systems/sys1.json")):
        return
    try:
        described = json.loads((root / division / "Acme/systems/sys1.json").read_text())
    except ValueError:
        return
    if described.get("division") == "closed":
        change_system(root, division, division=division)
    if division == "network":
        networked(root, **{"is_network": described["is_network"]} if "is_network" in described else {})


def take_to_round(root: Path, round_name: str) -> None:
    """With the seeds and the layout of another round."""
    for path in root.rglob("mlperf_log_detail.txt"):
        for name, seed in load_ruleset(round_name).seeds().items():
            if f'"effective_{name}", "value": {load_ruleset(ROUND).seeds()[name]},' in path.read_text():
                set_log(path.parent, f"effective_{name}", seed)
    if load_ruleset(round_name).layout == "legacy":
        as_legacy(root)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("division", ["closed", "open", "network"])
@pytest.mark.parametrize("checker", CHECKERS)
def test_nothing_that_the_official_checker_refuses_is_accepted_here(
    checker: str, division: str, clean_trees: Callable[[str], Path], tmp_path: Path
) -> None:
    name, round_name, variable = CHECKERS[checker]
    folder = find_checkout(variable)
    trees: dict[str, Path] = {}
    for number, mutation in enumerate(MUTATIONS):
        if mutation.division not in ("closed", division):
            continue
        root = copy_tree(clean_trees(mutation.division), tmp_path / f"{number}/tree")
        mutation.change(root)
        if mutation.division != division:
            enter_in(root, division)
        if round_name != ROUND:
            take_to_round(root, round_name)
        trees[mutation.name] = root
    answers = ask(folder, name, round_name, list(trees.values()))
    refused = {of: (root, said) for (of, root), (ok, said) in zip(trees.items(), answers, strict=True) if not ok}
    assert len(refused) > len(MUTATIONS) // 3
    accepted = {of: said for of, (root, said) in refused.items() if not has_errors(root, round_name)}
    known = [item for item in TABLE["exceptions"] if (item["checker"], item["round"]) == (checker, round_name)]
    exceptions = [item["message"] for item in known if division in item["divisions"]]
    assert {of: said for of, said in accepted.items() if not any(e in s for e in exceptions for s in said)} == {}


_RUN, _ACCURACY = "**/performance/run_1/mlperf_log_detail.txt", "**/accuracy/accuracy.txt"
# Fault of published results, of language models too → files, what is replaced in them, and by what; "" for all of it.
FAULTS = {
    **{
        f"{key} {value}": (_RUN, rf'("key": "{re.escape(key)}", "value": )[^,]*,', rf"\g<1>{value},")
        for key, value in (
            ("requested_use_token_latencies", "false"),
            ("result_first_token_99.00_percentile_latency_ns", 10**13),
            ("result_time_per_output_token_99.00_percentile_ns", 10**13),
            ("early_stopping_met", "false"),
            ("effective_sample_concatenate_permutation", "false"),
            ("effective_samples_per_query", 7),
            ("effective_target_latency_ns", 10**15),
            ("result_validity", '"INVALID"'),
        )
    },
    **{
        f"{metric} {value}": (_ACCURACY, rf"({metric}'?\"?: ?'?)[0-9.]+", rf"\g<1>{value}")
        for metric, value in (
            *(("rouge1", "1.0"), ("exact_match", "1.0"), ("gsm8k", "1.0"), ("CLIP_SCORE", "1.0"), ("FID_SCORE", "99")),
            *(("tokens_per_sample", "1.0"), ("tokens_per_sample", "99999.0"), ("gen_len", "99999999")),
        )
    },
    "no hash": (_ACCURACY, "hash=.*", "none"),
    "a failed check of TEST06": ("**/TEST06/verify_accuracy.txt", "check pass: True", "check pass: False"),
    "another category": ("*/*/systems/*.json", '"datacenter"', '"edge"'),
    **{f"no {glob}": (glob, "", "") for glob in ("**/TEST06", "*/*/code", "*/*/systems/*.json", "**/user.conf")},
    **{f"no {glob}": (glob, "", "") for glob in ("*/*/results/*/*/Offline", _ACCURACY, "**/measurements/*/*")},
}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_faults_of_published_results_are_refused_as_the_official_checker_does(tmp_path: Path) -> None:
    name, round_name, variable = CHECKERS["older of v5.1"]
    folder, published = find_checkout(variable), os.environ.get("PUBLISHED_V5_1")
    if not published:
        pytest.skip("PUBLISHED_V5_1 names no folder with published trees")
    accepted, faults = {}, set()
    for submitter in sorted(path for path in Path(published).glob("*/*") if path.is_dir()):
        trees: dict[str, Path] = {}
        for number, (fault, replaced) in enumerate(FAULTS.items()):
            root = tmp_path / str(number) / "tree"
            shutil.copytree(submitter, root / submitter.relative_to(published), symlinks=True)
            if spoil(root, *replaced):
                trees[fault] = root
        for (fault, root), (ok, said) in zip(
            trees.items(), ask(folder, name, round_name, list(trees.values())), strict=True
        ):
            faults |= set() if ok else {fault}
            if not ok and not has_errors(root, round_name):
                accepted[submitter.name, fault] = said
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
    assert len(faults) > len(FAULTS) // 2
    assert accepted == {}


def spoil(root: Path, glob: str, before: str, after: str) -> bool:
    """True where there is anything to spoil."""
    found = False
    for path in [path for path in root.glob(glob) if path.exists()]:
        if not before:
            found = True
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif "/compliance/" not in path.as_posix() or "TEST" in glob:
            text, count = re.subn(before, after, path.read_text(encoding="utf-8", errors="surrogateescape"))
            found = found or count > 0
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return found


def ask(folder: Path, module: str, round_name: str, trees: list[Path]) -> list[tuple[bool, list[str]]]:
    """(whether it is accepted, errors) of each tree."""
    command = [sys.executable, "-c", RUN, module, round_name, *map(str, trees)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    answers: list[Any] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return [(status == 0, said) for status, said in answers]


def has_errors(root: Path, round_name: str) -> bool:
    return any(finding.severity is Severity.ERROR for finding in check_tree(root, round_name=round_name).findings)
