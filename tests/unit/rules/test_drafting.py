"""Rounds against each other, and the draft of a round from a checker's source and mlperf.conf."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.main import main
from reconciler.errors import ReconcilerError
from reconciler.loadgen.user_conf import parse_user_conf
from reconciler.rules.checker_tables import read_checkers
from reconciler.rules.comparison import RulePlace, diff_rounds, find_conflicts, find_stated, read_value_at
from reconciler.rules.drafting import Draft, choose_base, choose_round, draft_round, load_draft, render_draft
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.rules.ruleset import Ruleset

BASE = load_ruleset("v6.1")
MODELS = [name for name in BASE.benchmarks if name != "whisper"]
NEWER = f"""raise SystemExit("its code is never run")
MS = 1000 * 1000
SHARED = {{"resnet": {{"Server": 15 * MS, "MultiStreamLegacy": 1}}}}
MODEL_CONFIG = {{
    "v6.2": {{
        "models": {[*MODELS, "picnic-99"]},
        "seeds": {{"qsl_rng_seed": 1, "sample_index_rng_seed": 2, "schedule_rng_seed": 3}},
        "required-scenarios-edge": {{"picnic-99": ["Offline"], "resnet": ["SingleStream", "MultiStream", "Offline"]}},
        "optional-scenarios-datacenter": {{"picnic-99": ["Server", "Interactive"]}},
        "accuracy-target": {{
            "picnic-99": ("acc", 70.1 * 0.99),
            "resnet": ("acc", 76.46 * 0.99),
            "qwen3-vl-235b-a22b": {{"Offline": ("F1_HIERARCHICAL", 0.8), "Server": ("F1_HIERARCHICAL", 0.8)}},
        }},
        "performance-sample-count": {{"picnic-99": 77, "resnet": 2048}},
        "dataset-size": {{"picnic-99": 500, "resnet": 50000}},
        "latency-constraint": {{**SHARED}},
        "models_TEST01": ["resnet", "picnic-99"],
        "models_TEST04": ["resnet"],
        "models_TEST77": ["picnic-99"],
        "min-queries": compute(),
        "model_mapping": {{"resnet50": "resnet", "lunch": "picnic-99", "other": "whisper"}},
    }},
}}
FILE_SIZE_LIMIT_MB = 50
MB_TO_BYTES = 1024 * 1024
OFFLINE_MIN_SPQ_SINCE_V4 = {{"picnic-99": 500}}
"""
OLDER = """MODEL_CONFIG = {"v6.2": {
    "seeds": {"qsl_rng_seed": 1, "sample_index_rng_seed": 2, "schedule_rng_seed": 4},
    "performance-sample-count": {"picnic-99": 80},
    "accuracy-target": {"picnic-99": ("mAP", 1)},
}}
"""
CONF = b"""*.*.qsl_rng_seed = 1
*.*.sample_index_rng_seed = 2
*.*.schedule_rng_seed = 3
*.Server.target_latency = 10
resnet50.*.performance_sample_count_override = 1024
picnic.*.performance_sample_count_override = 90
picnic.Server.target_latency = 30
picnic.Server.ttft_latency = 5
picnic-interactive.Server.ttft_latency = 2
forgotten.Server.target_latency = 4
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "tools/submission"
    (folder / "submission_checker").mkdir(parents=True)
    (folder / "submission_checker/constants.py").write_text(NEWER)
    (folder / "submission_checker_old.py").write_text(OLDER)
    return tmp_path


def make_draft(checkout: Path, conf: bytes = CONF) -> Draft:
    return draft_round("v6.2", BASE, read_checkers(checkout), parse_user_conf(conf, "mlperf.conf"))


@pytest.fixture
def drafted(checkout: Path) -> Ruleset:
    return load_draft("v6.2", render_draft(make_draft(checkout)))


def line_of(source: str, text: str) -> int:
    return 1 + source.splitlines().index(next(line for line in source.splitlines() if text in line))


def test_a_draft_loads_as_a_round_with_what_both_checkers_and_mlperf_conf_say(drafted: Ruleset) -> None:
    picnic, resnet = drafted.benchmarks["picnic-99"], drafted.benchmarks["resnet"]
    assert drafted.seeds() == {"qsl_rng_seed": 1, "sample_index_rng_seed": 2, "schedule_rng_seed": 3}
    assert "whisper" not in drafted.benchmarks
    assert picnic.get_value("accuracy.acc.least") == "69.399", "70.1 x 0.99"
    assert picnic.get_value("accuracy.mAP.least") is None, "of the older checker alone"
    assert picnic.get_value("model_key") == "picnic"
    assert picnic.get_value("model_key", "Interactive") == "picnic-interactive"
    assert picnic.get_value("ttft_latency", "Interactive") == 2_000_000
    assert picnic.get_value("performance_sample_count") == 90
    assert picnic.get_value("least_performance_sample_count") == 80, "the strictest"
    assert picnic.get_value("exact_accuracy_sample_count") == 500
    assert picnic.get_value("min_query_count", "Offline") == 500, "mlperf.conf does not say it"
    assert picnic.get_value("target_latency", "Server") == 30_000_000
    assert picnic.compliance_tests == ("TEST01",), "TEST77 is defined nowhere"
    assert picnic.tables["datacenter"].one_of == (("Interactive", "Server"),)
    assert resnet.get_value("least_performance_sample_count") == 2048
    assert drafted.find_official_name("lunch") == "picnic-99"


def test_only_differences_are_drafted_each_with_its_place(checkout: Path) -> None:
    changed = make_draft(checkout).changed
    said = {(place.benchmark, place.scenario, place.name): item for place, item in changed.items()}
    counts = said["resnet", "", "least_performance_sample_count"]["checker"]
    assert (counts.value, counts.where) == (2048, f"constants.py:{line_of(NEWER, 'performance-sample-count')}")
    assert said["", "", "qsl_rng_seed"]["mlperf.conf"].where == "mlperf.conf:1"
    assert ("resnet", "", "accuracy.acc.least") not in said, "as it was"
    assert ("resnet", "Server", "most_target_latency") not in said, "as it was, by way of two constants"
    assert ("resnet", "", "performance_sample_count") not in said
    assert ("", "Server", "target_latency") not in said
    assert not any(scenario == "MultiStreamLegacy" for _, scenario, _ in said)


def test_what_is_left_to_people_is_marked(checkout: Path) -> None:
    draft = make_draft(checkout)
    text = render_draft(draft)
    comments = [line for line in text.splitlines() if line.startswith("#")]

    def has(*parts: str) -> bool:
        return any(all(part in line for part in parts) for line in comments)

    assert has(f"constants.py:{line_of(NEWER, 'compute()')}", "min-queries", "compute()")
    assert has("mlperf.conf:10", "forgotten")
    assert has("TEST77", "picnic-99")
    assert has("picnic-99", "generation")
    assert {str(place) for place in draft.kept} >= {"resnet / Offline / least_samples_per_query"}
    (line,) = (line for line in text.splitlines() if line.strip().startswith("schedule_rng_seed"))
    assert ("ignored" in line, "TODO" in line, "old checker: 4" in line) == (True, True, True)


def test_a_draft_says_what_it_would_make_stale(checkout: Path) -> None:
    text = render_draft(make_draft(checkout))
    stale = text[text.index("# Stale") : text.index("round: v6.2")].splitlines()[1:]
    named = {line.removeprefix("#").strip().partition(":")[0]: line for line in stale}
    assert "runs (qsl_rng_seed" in named["all benchmarks"]
    assert "verdicts and checks" in named["resnet"]
    assert "runs" not in named["resnet"]
    assert "picnic-99" not in named, "there is none of the round before"


def test_what_no_source_was_read_of_stays_as_it_was(drafted: Ruleset) -> None:
    """The policy's bar is the stricter one, until its text is read."""
    rules, before = (each.benchmarks["qwen3-vl-235b-a22b"] for each in (drafted, BASE))
    assert rules.get_value("accuracy.F1_HIERARCHICAL.least") == "0.8", "of two scenarios"
    assert rules.get_value("accuracy.F1_HIERARCHICAL.least", "Interactive") == before.get_value(
        "accuracy.F1_HIERARCHICAL.least", "Interactive"
    )
    assert drafted.divisions == BASE.divisions


def test_a_checker_of_one_file_is_drafted_over_the_round_before_it(tmp_path: Path) -> None:
    """v2.1 itself extends v3.0: the chain leads back to the round that is drafted anew."""
    base = load_ruleset("v2.1")
    tables = {"models": list(base.benchmarks), "seeds": {"qsl_rng_seed": 5}, "test05_seeds": {"qsl_rng_seed": 6}}
    (tmp_path / "submission-checker.py").write_text(f"MODEL_CONFIG = {{'v2.1': {{}}, 'v3.0': {tables}}}\n")
    (checker,) = checkers = read_checkers(tmp_path)
    assert (checker.source, choose_round(checkers), choose_base("v3.0")) == ("checker", "v3.0", "v2.1")
    ruleset = load_draft("v3.0", render_draft(draft_round("v3.0", base, checkers, None)))
    assert ruleset.seeds()["qsl_rng_seed"] == 5
    assert ruleset.general["tests.TEST05.settings.qsl_rng_seed"].value == 6
    assert ruleset.seeds()["schedule_rng_seed"] == base.seeds()["schedule_rng_seed"]


DESCRIPTIONS = """SYSTEM_DESC_REQUIRED_FIELDS = ["division", "submitter"]
SYSTEM_DESC_MEANINGFUL_RESPONSE_REQUIRED_FIELDS = ["division"]
SYSTEM_DESC_REQUIRED_FIELDS_POWER = load()
"""


def test_a_section_whose_table_the_checker_has_no_more_is_removed(checkout: Path) -> None:
    """One whose table is code is still there, and was not read."""
    assert make_draft(checkout).removed == {"benchmarks/whisper": ""}, "it says nothing of descriptions"
    file = checkout / "tools/submission/submission_checker/constants.py"
    file.write_text(NEWER + DESCRIPTIONS)
    draft = make_draft(checkout)
    assert list(draft.removed) == ["benchmarks/whisper", "network", "endpoints"]
    drafted = load_draft("v6.2", render_draft(draft))
    assert (drafted.network.fields, drafted.endpoints.benchmarks) == ((), ())
    assert drafted.power_fields == BASE.power_fields


@pytest.mark.parametrize(("unit", "divisor"), [("s", 10**9), ("ms", 10**6), ("us", 10**3)])
def test_a_latency_is_divided_as_its_unit_says(checkout: Path, unit: str, divisor: int) -> None:
    """LoadGen counts nanoseconds."""
    file = checkout / "tools/submission/submission_checker/constants.py"
    file.write_text(f'{NEWER}SPECIAL_UNIT_DICT = {{"picnic-99": {{"Server": "Latency ({unit})"}}}}\n')
    picnic = load_draft("v6.2", render_draft(make_draft(checkout))).benchmarks["picnic-99"]
    assert (picnic.get_value("metric_unit", "Server"), picnic.get_value("metric_divisor", "Server")) == (unit, divisor)


MODELS_AND_SEED = f"'models': {MODELS}, 'seeds': {{'qsl_rng_seed': 1}}"


def draft_tables(folder: Path, tables: str) -> Draft:
    (folder / "submission_checker.py").write_text(f"MODEL_CONFIG = {{'v6.2': {{{tables}}}}}\n")
    return draft_round("v6.2", BASE, read_checkers(folder), None)


TABLES = [line.partition('"')[2].partition('"')[0] for line in NEWER.splitlines() if line.startswith('        "')]


@pytest.mark.parametrize("table", [*dict.fromkeys(TABLES)])
@pytest.mark.parametrize(
    "value", ["7", "'text'", "['resnet']", "{'resnet': 'x'}", "{'resnet': {'Server': ('a',)}}", "f()"]
)
def test_a_table_of_another_form_is_named_and_costs_no_other(tmp_path: Path, table: str, value: str) -> None:
    draft = draft_tables(tmp_path, f"{MODELS_AND_SEED}, {table!r}: {value}")
    assert "round: v6.2" in render_draft(draft)
    assert table in ("models", "seeds") or draft.changed[RulePlace("", "", "qsl_rng_seed")]["checker"].value == 1


@pytest.mark.parametrize("table", [*dict.fromkeys(TABLES)])
@pytest.mark.parametrize("value", ["7", "'text'", "['resnet']", "{'resnet': 7}"])
def test_a_table_in_place_of_a_list_or_the_reverse_has_its_line(tmp_path: Path, table: str, value: str) -> None:
    draft = draft_tables(tmp_path, f"{MODELS_AND_SEED},\n{table!r}: {value}")
    right = "['resnet']" if table.startswith("models") else "{'resnet': 7}"
    named = [item for item in draft.unread if item.startswith(f"submission_checker.py:2: MODEL_CONFIG/{table}: ")]
    assert bool(named) is (value != right)


def test_a_round_that_is_no_table_is_refused_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "submission_checker.py").write_text("MODEL_CONFIG = {'v6.1': {},\n'v6.2': 7}\n")
    with pytest.raises(ReconcilerError, match=r"submission_checker\.py:2") as caught:
        draft_round("v6.2", BASE, read_checkers(tmp_path), None)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("conf", "named"), [(b"", ""), (b"# a comment\nresnet50.*.min_duration=5\n", ""), (b"\na = b\n", ":2")]
)
def test_a_conf_that_sets_nothing_or_that_loadgen_rejects_is_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str], conf: bytes, named: str
) -> None:
    (checkout / "mlperf.conf").write_bytes(conf)
    draft = ("rounds", "draft", "--checker", str(checkout), "--conf", str(checkout / "mlperf.conf"))
    assert main(draft) == 1
    written = capsys.readouterr()
    assert written.out == ""
    assert f"mlperf.conf{named}" in written.err


@pytest.mark.parametrize("text", ["", "MODEL_CONFIG = load()\n", "MODEL_CONFIG = {\n", "\0"])
def test_a_folder_without_a_checkers_tables_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "submission_checker.py").write_text(text)
    with pytest.raises(ReconcilerError) as caught:
        read_checkers(tmp_path)
    assert caught.value.fix


@pytest.mark.parametrize("name", [*list_rounds()[1:]])
def test_a_round_that_says_nothing_new_is_the_round_before(name: str, tmp_path: Path) -> None:
    base = load_ruleset(choose_base(name))
    (tmp_path / "submission_checker.py").write_text(f"MODEL_CONFIG = {{'{name}': {{}}}}\n")
    draft = draft_round(name, base, read_checkers(tmp_path), None)
    assert (draft.changed, draft.removed, draft.kept) == ({}, {}, ())
    assert load_draft(name, render_draft(draft)).seeds() == base.seeds()


def test_the_command_writes_the_newest_round_and_refuses_one_that_the_checker_lacks(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = checkout / "mlperf.conf"
    conf.write_bytes(CONF)
    draft = ("rounds", "draft", "--checker", str(checkout))
    assert main((*draft, "--conf", str(conf))) == 0
    assert load_draft("v6.2", capsys.readouterr().out).benchmarks["picnic-99"].get_value("model_key") == "picnic"
    assert main((*draft, "--base", "v6.0", "--json")) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (found["round"], found["base"]) == ("v6.2", "v6.0")
    assert main((*draft, "--round", "v1.0")) == 1
    assert "v6.2" in capsys.readouterr().err


_ROUNDS = list_rounds()
_PAIRS = [*itertools.pairwise(_ROUNDS), (_ROUNDS[0], _ROUNDS[-1]), (_ROUNDS[-1], _ROUNDS[-1])]


@pytest.mark.parametrize(("before", "after"), _PAIRS)
def test_diff_is_antisymmetric(before: str, after: str) -> None:
    forth, back = (diff_rounds(load_ruleset(a), load_ruleset(b)) for a, b in ((before, after), (after, before)))
    assert forth.reverse() == back
    assert all(change.before != change.after for change in forth.changes)
    assert (before == after) is not bool(forth.changes or forth.added or forth.removed)


def test_diff_between_rounds_names_what_changed() -> None:
    diff = diff_rounds(load_ruleset("v5.1"), load_ruleset("v6.1"))
    assert "gpt-oss-120b" in diff.added
    assert "retinanet" in diff.removed
    changes = {str(change.place): (change.before, change.after) for change in diff.changes}
    assert changes["layout"] == ("legacy", "v6")
    assert changes["qsl_rng_seed"] == (1780908523862526354, 2085463073848966840)
    assert changes["deepseek-r1 / Interactive / most_tpot_latency"] == (None, 15_000_000)
    assert not any(name.startswith(("bert-99 ", "resnet ")) for name in changes), "nothing of theirs changed"


@pytest.mark.parametrize("name", list_rounds())
def test_conflicts_are_the_values_about_which_sources_differ(name: str) -> None:
    ruleset = load_ruleset(name)
    found = {conflict.place: conflict for conflict in find_conflicts(ruleset)}
    for place, ruled in find_stated(ruleset):
        assert (place in found) is bool(ruled.overruled or ruled.ignored), place
    for conflict in found.values():
        first, *others = conflict.statements
        assert first.counts
        assert others
        assert not any(other.counts for other in others)
        assert all(statement.because for statement in conflict.statements)
        assert read_value_at(ruleset, conflict.place) == first.value


def test_conflicts_say_which_counts_and_why() -> None:
    found = {str(conflict.place): conflict.statements for conflict in find_conflicts(load_ruleset("v6.1"))}
    strict, lax = found["dlrm-v3 / Server / most_target_latency"]
    assert (strict.value, strict.sources, strict.because) == (80_000_000, ("policy", "mlperf.conf"), "the strictest")
    assert (lax.value, lax.sources, lax.because) == (60_000_000_000, ("checker",), "less strict")
    strict, lax = found["gpt-oss-120b / Interactive / most_tpot_latency"]
    assert (strict.value, lax.value, lax.sources) == (15_000_000, 20_000_000, ("policy",))
    _, aside = found["llama3.1-8b / accuracy.ROUGE1.least"]
    assert aside.because == "the text repeats the figures of gptj"
