"""Compare DLRMv3's requests, network and scores with others': ``python -m tests.benchmarks.reference_dlrm_v3
CHECKOUT``.

CHECKOUT is one of mlcommons/inference with recommendation/dlrm_v3. The stream is generated; the network is a narrow one
of five layers with random weights, whose checkpoint the reference reads itself. Needs the reference's packages:
PyTorch, torchrec, fbgemm (fbgemm-gpu-cpu is sufficient), gin-config, pandas and tensorboard. On a CPU, the reference
computes with plain PyTorch.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.benchmarks import dlrm_v3
from harness.benchmarks.accuracy import read_accuracy_log
from harness.benchmarks.dlrm_v3 import rehearsal
from harness.benchmarks.dlrm_v3.histories import FOLDER, TIMESTAMPS, TRAINED
from harness.benchmarks.dlrm_v3.layers import CATEGORIES, ITEMS, USERS, HstuShape
from harness.benchmarks.dlrm_v3.rehearsal import CHECKPOINT
from tests.benchmarks.comparing import run_script, write_data, write_log

_FOLDER = "recommendation/dlrm_v3"
_COUNT = 40
# What the reference fixes in its code is as it is there; the rest is narrow.
SHAPE = HstuShape(embedding=16, width=32, hidden=24, linear=8, attention=4)


def make(folder: Path) -> None:
    rehearsal.SIZES["narrow"] = dataclasses.replace(rehearsal.SIZES["small"], shape=SHAPE)
    data, models, dataset, counter = write_data(rehearsal.write_rehearsal, folder, count=_COUNT, size="narrow")
    (folder / "model").mkdir()
    dlrm_v3.BENCHMARK.build_dataset(data, {}, dataset, counter)
    dlrm_v3.BENCHMARK.build_model(models / CHECKPOINT, {}, {}, folder / "model", counter)


class Reference:
    """The reference's dataset and network, with our sizes."""

    def __init__(self, folder: Path, users: int) -> None:
        configs, streaming, modules, checkpoint, common = (
            importlib.import_module(name)
            for name in (
                "configs",
                "datasets.synthetic_streaming",
                "inference_modules",
                "checkpoint",
                "generative_recommenders.common",
            )
        )
        config = configs.get_hstu_configs("sampled-streaming-100b")
        extent = rehearsal.SIZES["small"].extent
        config.max_num_candidates = config.max_num_candidates_inference
        config.hstu_embedding_table_dim, config.hstu_transducer_embedding_dim = SHAPE.embedding, SHAPE.width
        config.hstu_preprocessor_hidden_dim = SHAPE.hidden
        config.hstu_attn_linear_dim, config.hstu_attn_qk_dim = SHAPE.linear, SHAPE.attention
        self.stream = streaming.DLRMv3SyntheticStreamingDataset(
            hstu_config=config,
            ratings_file_prefix=f"{folder / 'data' / FOLDER}/",
            is_inference=True,
            train_ts=TRAINED,
            total_ts=TIMESTAMPS,
            num_files=1,
            num_users=users,
            num_items=extent.items,
            num_categories=extent.categories,
        )
        self.stream.is_inference = True
        self.collate = streaming.collate_fn
        tables = configs.get_embedding_table_config("sampled-streaming-100b")
        for name, rows in {ITEMS: extent.items, CATEGORIES: extent.categories, USERS: users}.items():
            tables[name].num_embeddings, tables[name].embedding_dim = rows, SHAPE.embedding
        modules.set_is_inference(is_inference=True)
        self.network = modules.get_hstu_model(tables, config, table_device="cpu")
        self.network.set_hammer_kernel(common.HammerKernel.PYTORCH)
        path = str(folder / "models" / CHECKPOINT)
        checkpoint.load_sparse_checkpoint(self.network, path)
        checkpoint.load_nonsparse_checkpoint(self.network, torch.device("cpu"), path=path)
        self.network.eval()

    def read(self, timestamp: int, number: int) -> Any:
        self.stream.set_ts(TRAINED + timestamp)
        return self.stream.load_item(self.stream.iloc(number), 2048)

    def foresee(self, requests: list[Any]) -> np.ndarray:
        batch = self.collate(requests)
        with torch.no_grad():
            found = self.network(batch.uih_features_kjt, batch.candidates_features_kjt)[3]
        answers: np.ndarray = found.float().numpy().reshape(len(requests), -1)
        return answers


def compare_requests(reference: Reference, samples: Any) -> int:
    """Return the requests that differ."""
    differing = 0
    for index in range(len(samples["request"])):
        timestamp, number, user, _ = samples["request"][index].tolist()
        known, asked = (part.to_dict() for part in reference.read(timestamp, number))
        wanted = {
            "history": known["item_id"].values().numpy(),
            "actions": known["item_weights"].values().numpy(),
            "candidates": asked["item_candidate_id"].values().numpy(),
            "likes": asked["item_action_weights"].values().numpy(),
        }
        same = all(np.array_equal(samples[name][index], array) for name, array in wanted.items())
        differing += not (same and known["user_id"].values().tolist() == [user])
    return differing


def compare_answers(reference: Reference, folder: Path, samples: Any) -> list[np.ndarray]:
    """Return our answers as logged in accuracy runs; print the distance of predictions from the reference's."""
    network = torch.export.load(folder / "model/model.pt2").module()
    loop = dlrm_v3.BENCHMARK.open_loop(folder / "models" / CHECKPOINT)
    answers, alone, together = [], [], []
    for index in range(len(samples["request"])):
        steps = loop({name: rows[index] for name, rows in samples.items()})
        asked = {name: torch.from_numpy(rows) for name, rows in next(steps).items()}
        try:
            steps.send([network(**asked)["probability"].numpy()])
        except StopIteration as ended:
            answers.append(ended.value)
    count = samples["candidates"].shape[1]
    ours = np.stack([answer[2 : 2 + count] for answer in answers])
    requests = [reference.read(*row[:2].tolist()) for row in samples["request"]]
    for first in range(0, len(requests), 4):
        alone += [reference.foresee([request])[0] for request in requests[first : first + 4]]
        together += list(reference.foresee(requests[first : first + 4]))
    for name, theirs in {"one at a time": alone, "in batches of four": together}.items():
        apart = np.abs(logit(ours) - logit(np.stack(theirs))).max()
        print(
            f"{ours.size} logits, the reference's {name}: at most {apart:.2e} apart, of {logit(ours).std():.3f} spread"
        )
    return answers


def logit(chances: np.ndarray) -> np.ndarray:
    wide = chances.astype(np.float64)
    found: np.ndarray = np.log(wide / (1 - wide))
    return found


def compare_scores(checkout: Path, folder: Path, answers: list[np.ndarray]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the official script's figures and ours."""
    log = write_log(folder, answers)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = run_script([sys.executable, "accuracy.py", "--path", log], cwd=checkout / _FOLDER, env=environment)
    dlrm_v3.score(read_accuracy_log(log), folder / "dataset", folder)
    return read_metrics(ran.stdout + ran.stderr), read_metrics((folder / "accuracy.txt").read_text())


def read_metrics(text: str) -> dict[str, str]:
    lines = (line.rpartition("metric/")[2].partition(": ") for line in text.splitlines() if "rating: " in line)
    return {name: value for name, _, value in lines if name.startswith("lifetime") and "num_samples" not in name}


def main(checkout: Path) -> None:
    sys.path.insert(0, str(checkout / _FOLDER))
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make(folder)
        samples = dlrm_v3.BENCHMARK.load_samples(folder / "dataset")
        users = len((folder / "data" / FOLDER / "0.csv").read_text().splitlines())
        reference = Reference(folder, users)
        print(f"{_COUNT} requests: {compare_requests(reference, samples)} differ")
        answers = compare_answers(reference, folder, samples)
        count = samples["candidates"].shape[1]
        for name, right in {"right": 1.0, "half": 0.5, "random": 0.0, "own": -1.0}.items():
            reported = [answer.copy() for answer in answers]
            for answer in reported if right >= 0 else ():
                chance, labels = rng.random(count), answer[2 + count : 2 + 2 * count]
                answer[2 : 2 + count] = np.where(rng.random(count) < right, 0.4 * chance + 0.6 * labels, chance)
            official, written = compare_scores(checkout, folder, reported)
            print(f"{name}: {'equal' if official == written else 'DIFFERENT'} {official} {written}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
