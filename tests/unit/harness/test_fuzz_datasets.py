"""Readers of the files that benchmarks are made from: any bytes end in a value, or in an error that names file and fix.

Inputs are mutations of good files, as those of ``tests/unit/storage/test_fuzz_readers.py``.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.benchmarks import rnnt, stable_diffusion_xl, unet3d, unet3d_brats
from harness.benchmarks.accuracy import read_accuracy_log
from harness.benchmarks.bert.squad import load_tokenizer, read_articles
from harness.benchmarks.detection import read_annotations, take_first
from harness.benchmarks.dlrm_v2 import criteo
from harness.benchmarks.dlrm_v2.checkpoint import METADATA as MANIFEST
from harness.benchmarks.dlrm_v2.checkpoint import open_checkpoint
from harness.benchmarks.dlrm_v3 import checkpoint as tables
from harness.benchmarks.dlrm_v3.histories import (
    FIELDS,
    LINES,
    OFFSETS,
    REQUEST_OFFSETS,
    REQUESTS,
    TIMESTAMPS,
    StreamFiles,
)
from harness.benchmarks.dlrm_v3.histories import USER_COUNTS as ASKING
from harness.benchmarks.dlrm_v3.layers import CATEGORIES, ITEMS, USERS
from harness.benchmarks.images import decode_image
from harness.benchmarks.language.tables import read_table, write_frame
from harness.benchmarks.mapped_arrays import map_array
from harness.benchmarks.pointpainting import infos
from harness.benchmarks.pointpainting.waymo import decode_picture
from harness.benchmarks.sources import REHEARSAL, read_sums
from harness.benchmarks.speech import count_samples, read_waveform
from harness.benchmarks.stable_diffusion_xl import clip_tokens
from harness.benchmarks.wan_2_2 import prompts
from harness.benchmarks.whisper import MANIFEST as PACKED
from harness.benchmarks.whisper import read_manifest
from harness.errors import HarnessError
from tests.unit.storage.test_fuzz_readers import Reader, fuzz

FIX = "bring it again"
_ROOM = 1 << 26  # bytes
Read = Callable[[Path], object]


def save_npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def make_frames() -> bytes:
    matrices = {name: np.eye(4) for name in infos.MATRICES}
    objects = {name: np.ones((1, 3)) for name in ("location", "dimensions")}
    found = {
        "image": {"image_idx": 7, "camera": [{"image_shape": np.array([8, 8])} for _ in range(infos.CAMERAS)]},
        "calib": matrices,
        "annos": {**objects, "rotation_y": np.ones(1), "name": np.array(["Car"]), "difficulty": np.zeros(1, np.int32)},
        "point_cloud": {"velodyne_path": "training/velodyne/7.bin"},
    }
    return pickle.dumps([found], 3)  # later ones count their bytes


class Named:
    """Of a checkpoint: what is pickled under the name of a class is a stand-in once it is read."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)

    def __hash__(self) -> int:
        return id(self)


class Properties:
    def __getstate__(self) -> tuple[type]:
        return (float16,)


class float16:  # noqa: N801 - PyTorch's name
    pass


def make_shards(*offsets: tuple[int, int]) -> tuple[bytes, bytes]:
    """The metadata of three tables, each of parts of four rows and two columns at ``offsets``, and their one file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data/0", np.ones((4, 2), np.float16).tobytes())
    data = stream.getvalue()
    state, places = {}, {}
    for name in (ITEMS, CATEGORIES, USERS):
        full = f"x.embeddings.{name}.weight"
        chunks = [Named(offsets=offset, sizes=(4, 2)) for offset in offsets]
        state[full] = Named(properties=Properties(), size=(4 * len(offsets), 2), chunks=chunks)
        for offset in offsets:
            places[Named(fqn=full, offset=offset)] = Named(relative_path="0.distcp", offset=0, length=len(data))
    return pickle.dumps(Named(state_dict_metadata=state, storage_data=places), 3), data


METADATA, SHARD = make_shards((0, 0))


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def with_others(name: str, others: Mapping[str, bytes], read: Read) -> Callable[[bytes, Path], object]:
    """The mutated file under its name, with whole ones next to it."""
    return lambda data, folder: read(write(folder, {REHEARSAL: b"{}", **others, name: data}))


def alone(name: str, read: Read) -> Callable[[bytes, Path], object]:
    return with_others(name, {}, lambda folder: read(folder / name))


def read_tables(folder: Path) -> None:
    shapes = tables.read_shapes(folder)
    for name, shape in shapes.items():
        assert tables.open_table(folder, name, shape).take(np.array([0, 9])).shape[0] == 2


def read_weights(folder: Path) -> None:
    found = open_checkpoint(folder, ["over_arch.weight"])
    assert found.read("over_arch.weight").dtype == np.float32


def read_stream(folder: Path) -> None:
    found = StreamFiles(folder)
    for user, fields in enumerate(found.read_users()):
        for number in range(TIMESTAMPS + 2):
            found.read_step(user, fields, number)


def packed(name: str, others: Mapping[str, bytes], read: Read) -> Callable[[bytes, Path], object]:
    """As ``with_others``, of a file that is compressed behind its mutation."""
    whole = with_others(name, others, read)
    return lambda data, folder: whole(gzip.compress(data, 1, mtime=0), folder)


def read_rows(columns: tuple[str, ...]) -> Read:
    return lambda path: read_table(path, columns, FIX)


LINE = (",".join(['"1,2"', '"5.0,1.0"'] * (FIELDS // 2)) + "\n").encode()
STREAM = {
    LINES: LINE * 2,
    OFFSETS: f'"0,{len(LINE)}"\n'.encode(),
    REQUESTS: b'"0,1"\n' * TIMESTAMPS,
    REQUEST_OFFSETS: ('"' + ",".join(str(6 * n) for n in range(TIMESTAMPS)) + '"\n').encode(),
    ASKING: b"2\n" * TIMESTAMPS,
}
ENTRY = {"type": "Tensor", "location": "batched/0", "serializer": "buffer_protocol", "dtype": "torch.float32"}
MANIFESTS = {
    "0/model/model.over_arch.weight": {**ENTRY, "shape": [2, 2], "replicated": False, "byte_range": [0, 16]},
    "0/other": {"type": "ShardedTensor", "shards": [{"offsets": [0], "sizes": [4], "tensor": {**ENTRY, "shape": [4]}}]},
}
BATCHED = {"batched/0": bytes(16)}
DAY = {
    criteo.DENSE_FILE: save_npy(np.ones((3, 13), np.float32)),
    criteo.LABELS_FILE: save_npy(np.ones((3, 1), np.int32)),
}


def make_npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **{str(n): np.ones((3, width), np.int32) for n, width in enumerate(criteo.MULTI_HOT)})
    return stream.getvalue()


def make_volume() -> bytes:
    import nibabel

    volume: bytes = nibabel.Nifti1Image(np.ones((4, 4, 4), np.int16), np.eye(4)).to_bytes()
    return volume


def make_sound(kind: str) -> bytes:
    import soundfile

    stream = io.BytesIO()
    soundfile.write(stream, np.zeros(64, np.float32), 16_000, format=kind)
    return stream.getvalue()


def make_picture() -> bytes:
    import cv2

    return bytes(cv2.imencode(".jpg", np.full((16, 16, 3), 90, np.uint8))[1])


def make_frame() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write_frame(Path(folder) / "rows.pkl", {"input": ["a", "b"], "tok_input": [[1, 2], [3]]})
        return (Path(folder) / "rows.pkl").read_bytes()


def make_tokenizer() -> bytes:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    return Tokenizer(WordLevel({"a": 0, "b": 1, "<pad>": 2}, unk_token="a")).to_str().encode()


def dump(document: Any) -> bytes:
    return json.dumps(document).encode()


COCO = dump(
    {
        "images": [{"id": n, "file_name": f"{n}.jpg", "height": 2, "width": 3} for n in (1, 2)],
        "annotations": [{"image_id": 1, "id": 4, "bbox": [0, 0, 1, 1], "category_id": 1, "area": 1.0, "iscrowd": 0}],
        "categories": [{"id": 1}],
    }
)
SQUAD = dump(
    {"version": "1.1", "data": [{"paragraphs": [{"context": "a b", "qas": [{"id": "1", "question": "a", "answers": [
        {"text": "b"}]}]}]}]}
)  # fmt: skip
CLIP = {
    "vocab.json": dump({"<|startoftext|>": 0, "<|endoftext|>": 1, "a": 2, "b</w>": 3, "ab</w>": 4}),
    "merges.txt": b"#version: 0.2\na b</w>\n",
    "special_tokens_map.json": dump({"pad_token": {"content": "a"}}),
}
VOLUME = make_volume()
CASE = {f"{name}.nii.gz": gzip.compress(VOLUME) for name in ("imaging", "segmentation")}
BRATS = "HGG__one"
PARTS = {
    unet3d_brats.find_file(BRATS, part): gzip.compress(VOLUME) for part in (*unet3d_brats.IMAGES, unet3d_brats.LABELS)
}
ROWS = [{"input": "a", "tok_input": [1, 2]}, {"input": "b", "tok_input": [3]}]
SPOKEN = [{"transcript": "a b", "files": [{"fname": "a.wav", "speed": 1}]}]
REPACKED = [{"transcript": "A B", "files": [{"fname": "a.wav", "speed": 1}], "original_duration": 0.004}]
ANSWERS = dump([{"qsl_idx": n, "seq_id": n, "data": "00000000"} for n in range(4)])


def read_case(folder: Path) -> None:
    unet3d.check_cases(folder, ["."])
    unet3d._resample(folder)


def read_brats(folder: Path) -> None:
    unet3d_brats.check_cases(folder, [BRATS])
    unet3d_brats.prepare_case(folder, BRATS)
    unet3d_brats.read_labels(folder, BRATS)


def read_sound(path: Path) -> None:
    read_waveform(path, min(count_samples(path, FIX), 1 << 16), FIX)


def read_picture(path: Path) -> None:
    decode_image(path, fix=FIX)
    decode_picture(np.frombuffer(path.read_bytes(), np.uint8))


READERS: Mapping[str, Reader] = {
    name: Reader(read, seeds, (HarnessError,), cost)
    for name, read, seeds, cost in (
        ("frames", alone("infos.pkl", infos.read_frames), (make_frames(),), 1),
        ("frame of pandas", alone("rows.pkl", read_rows(("input", "tok_input"))), (make_frame(),), 1),
        ("rows of JSON", alone("rows.json", read_rows(("input",))), (dump(ROWS), dump({"input": {"0": "a"}})), 1),
        ("lines of JSON", alone("rows.jsonl", read_rows(("input",))), (b"\n".join(map(dump, ROWS)),), 1),
        (
            "metadata of tables",
            with_others("sparse/.metadata", {"sparse/0.distcp": SHARD}, read_tables),
            (METADATA,),
            4,
        ),
        ("tables", with_others("sparse/0.distcp", {"sparse/.metadata": METADATA}, read_tables), (SHARD,), 4),
        ("manifest of weights", with_others(MANIFEST, BATCHED, read_weights), (dump({"manifest": MANIFESTS}),), 2),
        ("lines of users", with_others(LINES, STREAM, read_stream), (STREAM[LINES],), 20),
        ("offsets of users", with_others(OFFSETS, STREAM, read_stream), (STREAM[OFFSETS],), 20),
        ("requests", with_others(REQUESTS, STREAM, read_stream), (STREAM[REQUESTS],), 20),
        ("offsets of requests", with_others(REQUEST_OFFSETS, STREAM, read_stream), (STREAM[REQUEST_OFFSETS],), 20),
        ("array", alone("a.npy", lambda path: map_array(path, "float32", 13, FIX)), (DAY[criteo.DENSE_FILE],), 1),
        ("arrays of a day", with_others(criteo.SPARSE_FILE, DAY, criteo.read_day), (make_npz(),), 10),
        (
            "latents",
            alone("latents.npy", stable_diffusion_xl.read_latents),
            (save_npy(np.ones((1, 4, 2, 2), np.float32)),),
            1,
        ),
        (
            "captions",
            alone("captions.tsv", stable_diffusion_xl.read_captions),
            (b'id\tcaption\n1\ta b\n2\t"c\n"\n',),
            1,
        ),
        ("prompts", alone("prompts.txt", prompts.read_prompts), (b"a\nb c\n\n",), 1),
        ("annotations", alone("a.json", lambda path: take_first(read_annotations(path, "restore it"), 1)), (COCO,), 1),
        ("questions", alone("dev.json", read_articles), (SQUAD,), 1),
        ("words", alone("vocab.txt", load_tokenizer), (b"[UNK]\n[CLS]\n[SEP]\na\n",), 2),
        *(
            (f"{name} of CLIP", with_others(name, CLIP, partial(clip_tokens.read_tokenizer, fix=FIX)), (data,), 4)
            for name, data in CLIP.items()
        ),
        ("tokenizer", alone("tokenizer.json", lambda p: prompts.read_tokenizer(p.parent, FIX)), (make_tokenizer(),), 4),
        ("utterances", alone("a.json", lambda path: list(rnnt._read_manifest(path))), (dump(SPOKEN),), 1),
        ("packed utterances", alone(PACKED, lambda path: read_manifest(path.parent, path)), (dump(REPACKED),), 1),
        ("sound", alone("a.flac", read_sound), (make_sound("FLAC"), make_sound("WAV")), 4),
        ("picture", alone("a.jpg", read_picture), (make_picture(),), 4),
        ("volume", packed("imaging.nii.gz", CASE, read_case), (VOLUME,), 10),
        ("volume of a brain", packed(next(iter(PARTS)), PARTS, read_brats), (VOLUME,), 10),
        ("accuracy log", alone("mlperf_log_accuracy.json", read_accuracy_log), (ANSWERS,), 1),
        ("sums", alone("SHA256SUMS", lambda path: read_sums(path.parent)), (b"a" * 64 + b"  a.bin\n",), 1),
    )
}


@pytest.mark.parametrize("name", READERS)
def test_no_input_ends_otherwise(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    ended = fuzz(reader, 1, 400 // reader.cost, tmp_path)
    assert ended.get("read"), "no input was read: the mutations are too rough to prove anything"


def claim_volume(sides: tuple[int, int, int], spacing: float) -> bytes:
    """A volume whose header says so, of as many bytes as its end is checked for."""
    header = bytearray(VOLUME)
    header[40:56] = struct.pack("<8h", 3, *sides, 1, 1, 1, 1)
    header[80:92] = struct.pack("<3f", spacing, 1.2, 1.2)
    return bytes(header)


def claim_picture(height: int, width: int) -> bytes:
    data = bytearray(make_picture())
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return bytes(data)


def claim_sound(samples: int) -> bytes:
    data = bytearray(make_sound("FLAC"))
    data[22:26] = samples.to_bytes(4, "big")  # the lower 32 of 36 bits
    return bytes(data)


def claim_array(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": kind, "fortran_order": False, "shape": shape})
    return stream.getvalue() + bytes(64)


END = 2**63 - 1
CLAIMS: Mapping[str, tuple[str, bytes]] = {
    "a line where no file system counts": ("offsets of users", f'"0,{END}"\n'.encode()),
    "requests where no file system counts": (
        "offsets of requests",
        f'"{",".join([str(END)] * TIMESTAMPS)}"\n'.encode(),
    ),
    "a name longer than any": (
        "manifest of weights",
        dump(
            {"manifest": {"0/over_arch.weight": {**MANIFESTS["0/model/model.over_arch.weight"], "location": "b" * 256}}}
        ),
    ),
    "a part next to its table": ("metadata of tables", make_shards((0, 2))[0]),
    "parts over each other, and a hole": ("metadata of tables", make_shards((0, 0), (2, 0))[0]),
    "terabytes in a header": ("latents", claim_array((1, 4, 1 << 20, 1 << 20))),
    "more than any machine counts": ("array", claim_array((1 << 62, 13))),
    "fewer than none": ("latents", claim_array((-1, -1, 1, 1))),
    "objects": ("latents", claim_array((1, 1, 1, 1), "|O")),
    "a volume of terabytes": ("volume", claim_volume((32767, 32767, 32767), 1.6)),
    "a volume of 4 GiB and 128 bytes": ("volume", claim_volume((2112, 251, 4051), 1.6)),
    "voxels of a kilometre": ("volume", claim_volume((4, 4, 4), 1e12)),
    "voxels of nothing": ("volume", claim_volume((4, 4, 4), float("nan"))),
    "a day of sound": ("sound", claim_sound(16_000 * 86_400)),
    "a minute of sound": ("sound", claim_sound(16_000 * 60)),
    "a gigapixel": ("picture", claim_picture(32767, 32767)),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_a_file_only_claims_is_refused_before_there_is_room_for_it(claim: str, tmp_path: Path) -> None:
    name, data = CLAIMS[claim]
    tracemalloc.start()
    try:
        with pytest.raises(HarnessError, match=str(tmp_path)):
            READERS[name].read(data, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < _ROOM
    finally:
        tracemalloc.stop()
