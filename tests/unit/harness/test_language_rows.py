"""MLPerf's language models: what each makes of its published format, and what its network's own answers score."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("openvino_genai")

from tokenizers import Tokenizer

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.language.prompt_sets import TOKENIZER, load_references
from harness.benchmarks.language.published import BENCHMARKS
from harness.benchmarks.language.rehearsing import GENERATED
from harness.benchmarks.language.scoring import is_right_number
from harness.benchmarks.language.tables import read_frame, write_frame
from harness.contract import Counter
from harness.run.tokens import PROMPTS, STOP_SEQUENCE
from harness.verbs.run import choose_sampling
from reconciler.rules.accuracy import METRIC_LINES, parse_accuracy
from reconciler.rules.benchmark_facts import load_benchmark_facts
from reconciler.rules.rounds import list_rounds, load_ruleset
from tests.shared import need
from tests.unit.harness.generated import generate

need("rouge_score")  # whose import brings SciPy along
COUNT = 6  # prompts: enough that half of them score less
MORE = {"mixtral_8x7b": 12, "llama3_1_8b": 8}  # three kinds in one set; test_prompt_sets.py shares the other
MIXTRAL = BENCHMARKS["mixtral_8x7b"]
ROWS = ["gptj", "llama2_70b", "llama3_1_8b", "llama3_1_8b_edge", "llama3_1_405b", "mixtral_8x7b"]
ROWS += ["deepseek_r1", "gpt_oss_120b"]


class Row:
    """A benchmark with a rehearsal's dataset of it, prepared, and the answers of the rehearsal's network."""

    def __init__(self, name: str, folder: Path, made: Path) -> None:
        self.count = MORE.get(name, COUNT)
        self.name, self.code = name, BENCHMARKS[name]
        self.output = folder
        self.code.build_dataset(made / "data", {}, folder, Counter(folder.with_name("counter")))
        (model,) = (made / "models").iterdir()
        decoder = GENERATED[name].open_network(model)
        prompts = self.code.load_samples(folder)[PROMPTS]
        self.answers = [decoder.answer(prompt.tolist()) for prompt in prompts]

    def score(self, answers: list[list[int]]) -> Any:
        data = tuple(np.array(tokens, np.int32).tobytes() for tokens in answers)
        return self.code.score(AnswerLog(np.arange(len(answers), dtype=np.intp), data, 0, 0), self.output, self.output)

    def half(self) -> list[list[int]]:
        """The first half of the answers; then one token each that says nothing."""
        return [*self.answers[: self.count // 2], *([[1, 1]] * (self.count // 2))]


@pytest.fixture(scope="module", params=ROWS)
def row(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Row:
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "gpt_oss_120b":  # it repeats its questions
            code = BENCHMARKS[request.param]
            patched.setattr(code, "published", replace(code.published, samples=COUNT))
        made = generate(tmp_path_factory, request.param, MORE.get(request.param, COUNT))
    return Row(request.param, tmp_path_factory.mktemp("output"), made)


def test_the_networks_own_answers_score_highest(row: Row) -> None:
    scores = row.score(row.answers)
    highest = {name: value for name, value in scores.items() if not name.startswith(("gen_", "tokens", "mbxp", "num-"))}
    assert highest
    assert set(highest.values()) == {100.0}
    half = row.score(row.half())
    assert all(half[name] < 100 for name in highest)


def test_every_bar_of_the_rounds_finds_its_line(row: Row) -> None:
    row.score(row.answers)
    text = (row.output / "accuracy.txt").read_text()
    facts = load_benchmark_facts()[row.name]
    rules = [load_ruleset(name).find_benchmark(official) for name in list_rounds() for official in facts.names.values()]
    metrics = {bar.metric for found in rules if found is not None for bar in found.list_bars("Offline")}
    assert metrics
    found = parse_accuracy(text, metrics & METRIC_LINES.keys()).metrics
    assert {name for name, values in found.items() if not values} == set()


def test_a_reference_for_each_prompt_is_kept_with_the_tokenizer(row: Row) -> None:
    references = load_references(row.output)
    assert set(references) == set(row.code.published.references)
    assert {len(values) for values in references.values()} == {row.count}
    assert Tokenizer.from_file(str(row.output / TOKENIZER)).get_vocab_size() <= row.code.published.vocabulary


@pytest.mark.parametrize(
    ("answer", "wanted", "right"),
    [
        ("so 3 and 4 make 7", "7", True),
        ("The answer is 5,600 dollars, of 9", 5600, True),
        ("The answer is unknown, but 12 fits", "12", True),
        ("It is 8.\nQ: What is 9?", "8.0", True),
        ("no number at all", "8", False),
        ("nor here", "none", False),
    ],
)
def test_the_number_that_counts(answer: str, wanted: object, right: bool) -> None:
    assert is_right_number(answer, wanted) is right


def test_programs_end_with_the_fence_behind_them(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """As the reference cuts them; the samples of a run say which prompts ask for one."""
    count = MORE["mixtral_8x7b"]
    made = generate(tmp_path_factory, "mixtral_8x7b", count)
    shutil.copytree(made / "data", tmp_path / "data")
    path = tmp_path / "data" / MIXTRAL.published.files[0]
    rows = {**read_frame(path, ""), "dataset": ["MBXP" if number % 3 == 1 else "GSM8K" for number in range(count)]}
    write_frame(path, rows)
    output = tmp_path / "output"
    output.mkdir()
    MIXTRAL.build_dataset(tmp_path / "data", {}, output, Counter(tmp_path / "counter"))
    samples = MIXTRAL.load_samples(output)
    assert [int(number) for number in samples[STOP_SEQUENCE]] == [int(number % 3 == 1) for number in range(count)]
    stop = choose_sampling(MIXTRAL.generation, {}, {}).find_stop_sequence(1)
    assert stop is not None
    answer = [28705, 3380, 13, 13940, 28832, 13, 13, 1014]
    assert (stop.text, list(stop.cut(answer))) == ("\n```\n", answer[:6])
