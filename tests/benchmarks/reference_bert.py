"""Compare our windows, answers and F1 with the reference's: ``python -m tests.benchmarks.reference_bert CHECKOUT``.

CHECKOUT is one of mlcommons/inference with language/bert. Passages are generated; texts that ship with Python and
difficult input for tokenizers are added. Needs transformers below 5, which the reference imports; transformers' own
tokenizer replaces BERT's ``tokenization``, which the reference does not contain.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np

from harness.benchmarks.accuracy import read_accuracy_log
from harness.benchmarks.bert import postprocess, score
from harness.benchmarks.bert.rehearsal import MODEL, write_rehearsal
from harness.benchmarks.bert.squad import INPUTS, QUESTIONS, VOCABULARY, build_dataset
from harness.benchmarks.network_builder import NetworkSession
from tests.benchmarks.comparing import run_script, write_data, write_log

_STAND_IN = """
from transformers.models.bert.tokenization_bert import BasicTokenizer as _Basic
printable_text = str
whitespace_tokenize = str.split
def BasicTokenizer(do_lower_case):
    return _Basic(do_lower_case=do_lower_case)
"""
_HARD = (
    "Ca\u0301fe\u0301 na\u00efve \u4f60\u597d \u202f thin\u202fspace no\u00a0break \u3000 wide tab\there\nnew line "
    "soft\u00adhyphen zero\u200bwidth x\ufffdy emoji \U0001f600 end [SEP] [UNK] \u0130stanbul stra\u00dfe 1,000.50 $5 "
    + "long"
    * 40
)


def append_passages(data: Path) -> None:
    """Append passages to a rehearsal's dataset whose answers are some of their words."""
    vocabulary = (data / VOCABULARY).read_text().split("\n")[:-1]
    letters = [chr(code) for code in (*range(33, 127), 0x4F60, 0x597D)]
    vocabulary += [letter for letter in (*letters, *(f"##{letter}" for letter in letters)) if letter not in vocabulary]
    (data / VOCABULARY).write_text("\n".join(vocabulary) + "\n")
    document = json.loads((data / QUESTIONS).read_text())
    texts = [_HARD, *(text[:6000] for _, text in sorted(topics.items())[:30])]
    for number, text in enumerate(texts):
        words = text.split()
        asked = [
            {"id": f"text-{number}-{i}", "question": " ".join(words[i : i + 80]), "answers": [{"text": words[i]}]}
            for i in range(2)
        ]
        document["data"][0]["paragraphs"].append({"context": text, "qas": asked})
    (data / QUESTIONS).write_text(json.dumps(document))


def read_reference(checkout: Path, data: Path) -> list[Any]:
    """Return the reference's features."""
    sys.path[:0] = [str(checkout / "language/bert")]
    transformers = importlib.import_module("transformers")
    reference = importlib.import_module("create_squad_data")
    features: list[Any] = []
    reference.convert_examples_to_features(
        examples=reference.read_squad_examples(str(data / QUESTIONS), is_training=False),
        tokenizer=transformers.BertTokenizer(str(data / VOCABULARY)),
        max_seq_length=384,
        doc_stride=128,
        max_query_length=64,
        is_training=False,
        output_fn=features.append,
    )
    return features


def compare_scores(checkout: Path, folder: Path, logits: np.ndarray) -> tuple[str, str]:
    """Return the last line of the official script and ours."""
    log, data = write_log(folder, logits), folder / "data"
    command = [sys.executable, checkout / "language/bert/accuracy-squad.py", "--log_file", log]
    command += ["--vocab_file", data / VOCABULARY, "--val_data", data / QUESTIONS]
    command += ["--out_file", folder / "predictions.json", "--features_cache_file", folder / "cache.pickle"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "stand_in")}
    ran = run_script(command, env=environment, cwd=folder)
    score(read_accuracy_log(log), folder / "dataset", folder)
    return ran.stdout.splitlines()[-1], (folder / "accuracy.txt").read_text().strip()


def main(checkout: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "stand_in").mkdir()
        (folder / "stand_in/tokenization.py").write_text(_STAND_IN)
        (folder / "stand_in/pkg_resources.py").write_text("working_set = []\n")
        sys.path[:0] = [str(folder / "stand_in")]
        data, models, dataset, counter = write_data(write_rehearsal, folder, count=160, seed=1)
        append_passages(data)
        build_dataset(data, {}, dataset, counter)
        ours = {name: np.load(dataset / f"{name}.npy") for name in INPUTS}
        features = read_reference(checkout, data)
        differing = sum(
            any(not np.array_equal(ours[name][row], getattr(feature, name)) for name in INPUTS)
            for row, feature in enumerate(features)
        )
        print(f"{len(features)} windows, of ours {len(ours['input_ids'])}; {differing} differ")
        session = NetworkSession(models / MODEL)
        # The added letters are beyond the network's vocabulary.
        feed = {**ours, "input_ids": np.minimum(ours["input_ids"], 318)}
        rows = ({name: array[row : row + 1] for name, array in feed.items()} for row in range(len(features)))
        right = np.concatenate([postprocess(session.compute(row)) for row in rows])
        rng = np.random.default_rng(1)
        chance = rng.normal(0, 3, right.shape).astype(np.float32)
        half = np.where((rng.random(len(right)) < 0.5)[:, None, None], right, chance)
        for name, logits in {"right": right, "half": half, "random": chance, "equal": np.round(chance)}.items():
            official, written = compare_scores(checkout, folder, logits)
            print(f"{name}: {'equal' if official == written else 'DIFFERENT'} {official} {written}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
