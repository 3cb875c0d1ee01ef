"""DLRMv3 on its synthetic stream: which of 2,048 items a user will like, given everything that the user liked
so far."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks import LoopBenchmark, copy_model
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.dlrm_v3.checkpoint import DENSE, FIX, SPARSE, Table, open_table, read_shapes
from harness.benchmarks.dlrm_v3.histories import build_dataset, load_performance_samples, load_samples
from harness.benchmarks.dlrm_v3.layers import CATEGORIES, ITEMS, USER_WEIGHT, USERS, find_shape, list_weights
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Arrays

# The formulas are torchrec's: entropy divided by that of always predicting the mean label, and the mean area under the
# curve over the requests that have one.

_LEAST = 1e-12  # minimum distance of a prediction from 0 and 1
_FIX = "run accuracy again"


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return DLRM_NE, DLRM_ACC and DLRM_AUC as fractions. An answer contains its request's number; LoadGen's is
    ignored."""
    requests = np.load(dataset / "requests.npy", mmap_mode="r")
    likes = np.load(dataset / "likes.npy", mmap_mode="r")
    counts = np.bincount(requests[:, 0])
    firsts = np.cumsum(counts) - counts
    answered = np.zeros(len(requests), bool)
    entropy = right = liked = total = areas = curves = 0.0
    for data in log.data:
        values = _read(data, likes.shape[1])
        request = _find_request(values[:2], counts, firsts)
        if answered[request]:
            raise HarnessError(f"request {request} is answered twice", "input", _FIX)
        answered[request] = True
        _, predictions, labels, weights, _ = np.split(values, 2 + likes.shape[1] * np.arange(4))
        if not np.array_equal(labels, likes[request]) or not (weights == 1).all():
            raise HarnessError("an answer does not contain the labels of its request", "input", _FIX)
        entropy += sum_entropy(predictions, labels)
        right += float(((predictions >= 0.5) == labels).sum())
        liked += float(labels.sum())
        total += len(labels)
        area = compute_area(predictions, labels)
        if area is not None:
            areas, curves = areas + area, curves + 1
    found = {
        "DLRM_NE": entropy / (total * _compute_entropy(liked / total)),
        "DLRM_ACC": right / total,
        "DLRM_AUC": (areas + 1e-9) / (curves + 2e-9),
    }
    names = zip(("ne", "accuracy", "gauc"), found.values(), strict=True)
    text = "".join(f"metric/lifetime_{name}/rating: {value}\n" for name, value in names)
    (output / "accuracy.txt").write_text(text, encoding="ascii")
    return {**found, "total": int(total)}


def _read(data: bytes, count: int) -> np.ndarray:
    """Return timestamp, number, predictions, labels, weights, and their count."""
    if len(data) != 4 * (3 + 3 * count):
        problem = f"an answer has {len(data)} bytes, a request of {count} candidates needs {4 * (3 + 3 * count)}"
        raise HarnessError(problem, "input", _FIX)
    values = np.frombuffer(data, np.float32)
    if values[-1] != count or not np.isfinite(values).all():
        raise HarnessError("an answer contains non-numbers, or the wrong number of candidates", "input", _FIX)
    return values


def _find_request(named: np.ndarray, counts: np.ndarray, firsts: np.ndarray) -> int:
    timestamp, number = named.astype(np.int64).tolist()
    if not (0 <= timestamp < len(counts) and 0 <= number < counts[timestamp]):
        summary = f"an answer is for request {number} at timestamp {timestamp}, which the dataset does not contain"
        raise HarnessError(summary, "input", _FIX)
    return int(firsts[timestamp] + number)


def sum_entropy(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Return the entropy in bits."""
    chances = np.clip(predictions.astype(np.float64), _LEAST, 1 - _LEAST)
    return float(-np.log2(np.where(labels == 1, chances, 1 - chances)).sum())


def _compute_entropy(mean: float) -> float:
    mean = min(max(mean, _LEAST), 1 - _LEAST)
    return float(-mean * np.log2(mean) - (1 - mean) * np.log2(1 - mean))


def compute_area(predictions: np.ndarray, labels: np.ndarray) -> float | None:
    """Compute the area in single precision, like the official script. None if all labels or all predictions are equal;
    0 always counts as one of them, since the script pads with it."""
    if labels.min() == labels.max() or ((predictions == predictions[0]) | (predictions == 0)).all():
        return None
    ranked = labels[np.argsort(predictions, kind="stable")]
    below = np.cumsum(1 - ranked)
    liked = int(labels.sum())
    return float(np.float32((ranked * below).sum()) / np.float32(liked * (len(labels) - liked)))


# Items and users are looked up here, in the checkpoint's tables on disk; the reference keeps them in the host's memory,
# too. A history is padded to the longest one of the dataset, so that requests share batches.

OUTPUT = "probability"
OUTPUTS = {OUTPUT: ((2048,), "float32")}
STEP_THREADS = 8  # lookups in a terabyte of tables mostly wait for memory
_SEED = 123  # seed of the reference's request order

Steps = Generator[Arrays, Outputs, NDArray[np.float32]]


def open_loop(source: Path | None) -> Callable[[Arrays], Steps]:
    """Open the loop. ``source``: the checkpoint."""
    if source is None:
        raise HarnessError("model.path is not set", "input", "set model.path to the DLRMv3 checkpoint")
    shapes = read_shapes(source)
    items, users = (open_table(source, name, shapes[name]) for name in (ITEMS, USERS))
    in_category = max(1, items.rows // shapes[CATEGORIES].size[0])
    return lambda sample: answer_request(sample, items, users, in_category)


def answer_request(sample: Arrays, items: Table, users: Table, in_category: int) -> Steps:
    """Map "request" [4], "history", "actions", "candidates", and in accuracy runs "likes", to float32: timestamp, the
    request's number in it, and predictions; then, if known, the likes, as many weights of 1, and the number of
    likes."""
    timestamp, number, user, longest = sample["request"].tolist()
    seen, candidates = sample["history"], sample["candidates"]
    (found,) = yield {
        "history": _pad(items.take(seen), longest),
        "history_categories": _pad(seen // in_category, longest),
        "actions": _pad(sample["actions"].astype(np.int32), longest),
        "length": np.array([len(seen)], np.int32),
        "user": users.take(np.array([user])),
        "candidates": items.take(candidates)[None],
        "candidate_categories": (candidates // in_category)[None],
    }
    answer = [np.array([timestamp, number], np.float32), found.reshape(-1).astype(np.float32, copy=False)]
    if "likes" in sample:
        count = len(candidates)
        answer += [sample["likes"].astype(np.float32), np.ones(count, np.float32), np.array([count], np.float32)]
    return np.concatenate(answer)


def _pad(rows: np.ndarray, longest: int) -> np.ndarray:
    padded = np.zeros((1, longest, *rows.shape[1:]), rows.dtype)
    padded[0, : len(rows)] = rows
    return padded


def list_in_order(samples: Arrays, expected: int) -> Iterator[int]:
    """Yield samples in request order, regardless of LoadGen's choice, since the rules require time order. The samples
    of a timestamp are shuffled like the reference's. If ``expected`` queries exceed the samples, each timestamp is
    repeated before the next one. The sequence has no end, since the last timestamp is repeated."""
    timestamps = samples["request"][:, 0]
    counts = np.bincount(timestamps).tolist()
    shuffled = random.Random(_SEED)  # noqa: S311 - the reference's order, no secret
    begin, orders = 0, []
    for count in counts:
        order = list(range(count))
        shuffled.shuffle(order)
        orders.append([begin + place for place in order])
        begin += count
    for order in orders[:-1]:
        for _ in range(max(1, expected // begin)):
            yield from order
    while True:
        yield from orders[-1]


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    if source is None or not source.is_dir():
        copy_model(source, settings, inputs, output, counter)
        return
    missing = [name for name in (SPARSE, DENSE) if not (source / name).exists()]
    if missing:
        raise HarnessError(f"{source} contains no {', no '.join(missing)}", "missing", FIX)
    tables = read_shapes(source)

    import torch

    from harness.benchmarks.dlrm_v3.network import write_program
    from harness.benchmarks.saved_tensors import load_saved

    counter.stage("building", 1)
    saved = load_saved(source / DENSE, FIX)
    dense = saved.get("dense_dict", {}) if isinstance(saved, dict) else {}
    sizes = {name: tuple(tensor.shape) for name, tensor in dense.items() if isinstance(tensor, torch.Tensor)}
    try:
        shape = find_shape(sizes)
        for name, wanted in list_weights(shape).items():
            if sizes[name] != wanted:
                message = f"{name} of the checkpoint is {list(sizes[name])}, expected {list(wanted)}"
                raise HarnessError(message, "input", FIX)
    except KeyError as error:
        raise HarnessError(f"{source / DENSE} has no weight {error.args[0]}", "input", FIX) from error
    if {table.size[1] for table in tables.values()} != {shape.embedding}:
        widths = ", ".join(f"{name} {table.size[1]}" for name, table in tables.items())
        message = f"rows of the tables have {widths} values, {USER_WEIGHT} takes {shape.embedding}"
        raise HarnessError(message, "input", FIX)
    rows = np.arange(tables[CATEGORIES].size[0])
    categories = torch.from_numpy(open_table(source, CATEGORIES, tables[CATEGORIES]).take(rows))
    weights = {name: dense[name] for name in list_weights(shape)}
    write_program(weights, categories, shape, output)
    counter.bump(1)


class DlrmV3(LoopBenchmark):
    outputs = OUTPUTS
    response_dtype = "float32"
    step_threads = STEP_THREADS
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_samples)
    load_performance_samples = staticmethod(load_performance_samples)
    open_loop = staticmethod(open_loop)
    list_in_order = staticmethod(list_in_order)
    score = staticmethod(score)


BENCHMARK = DlrmV3()
