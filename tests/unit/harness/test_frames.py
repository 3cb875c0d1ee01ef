"""Pickled frames of other people: read without pandas, and nothing that is not a frame is ever run."""

from __future__ import annotations

import base64
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest

from harness.benchmarks.language import tables
from harness.benchmarks.language.tables import read_frame, write_frame
from harness.errors import HarnessError

COLUMNS = {"input": ["one", "zwei", "trois"], "tok_input": [[1, 2], [3], [4, 5, 6]], "output": ["a", "b", "c"]}
# Written by pandas itself, protocol 2 and 5: {"input": ["a", "b"], "tok_input": [[1, 2], [3]], "n": [1, 2]}.
PANDAS = {
    "2.3.3 protocol 2": (
        "eNp1U2lT1EAQzWYBJV6oKN73ETyieKKiKCIKkUXHo/Jla2qSHTYpstm8zKSQKrdKP7ALv1pnZpeysHQ+zHSnu1+/N+n5YUc5yxpM"
        "eFG74N5qwVrcmWeSLRgL1uRPVDqw3WDIsizaahao7qpIMsmLjKXCa7GMNXkhnLm0Ha0t9z0HQzvpNE1C8SffoWWWJ9FaymmoCxwM"
        "R1nZyjc8aoBbZSoTVhRsw6EFj9qZkEUZSQcj/TRHgZoo9vjWJvZGqqzBI+HwTBsORoOKohzCCUbUmTKZZFPY18V+ggM9HCQ45PoV"
        "3/btLsYGkA25kavKw4GtKlamcWR7q4ejBOOuXzVo33GsVqst/VLLbP6sxPFwu44J18QZTgy6nqzjlMHndZz2q4xLnAkjSsMyUboy"
        "Sh2RJpFqdta3FIlKD+cIzvt2DxcILsbD8UhsdF2KFdnLBFc0WEWTvRr3+SXTuKb5XSdwd/jNYHI3P0viRrgdjwZjKqoz9LIHJ27G"
        "6j5uEdyW8ML4rOJR1UzuENzVTKYI7nVxv44H7l//vMG/ceGFTHCHZnydLuovDh7+P22Q8aiDx/1Zaqghw/SOzCda5lOCZ1pmdRMz"
        "8bi61eduMKyVZnkp8SIYVbZsr9G+P2sUZ3iprvZVaDAzNbOYq5VdvCaYj/9Np2BZkztE7wNSbzpYcOO5mmkmJCsk3vqWQRSyneOd"
        "bw8cnmPRryj8JQKfd/GeYLn/MtTkoGYYamHmHWHF+LTFJTNqP9Tx0fRgUhYCpINPZjbpasqaAp87+BJM6HCattcFbZS5GhEmOU1Z"
        "yFOBr1uiDL3fmbEp4g=="
    ),
    "2.3.3 protocol 5": (
        "eNptks2L1DAUwKft1K8V12VAVwSPMl569iAqrgharLD3Iby2mWmZNi1Jyjrggh4cd+Hd9um/qy+ZGZwVc0hekvfxex9f45+TaOQX"
        "HvWgSjBJ0WmZzDW0kvD2W7DwzstX9OwbndMUx6JdaMIn++q1slIraEzSgoKF1Ibw7pumK5YfN3c2xwdbC9HUuflrQngoBtXXxbKR"
        "Inc2XlkNbb9KhHffDo2tQWtYsVuhZdEpY/VQWKcZe03Cm+zcq1xROvpOJ0FOP+iUpmmQhmm4puoQ49KuepcKhp+e0+XF5j/C4Atl"
        "WfbhNy+/pa8s5ZczTjYAQnY027iRM0ojkPyJt/KhZijF+LFp6kL6sBwpcE7T0O3VAU7202BZ6rogPBBz3bX5MJ/7ykx/3d/0YBRs"
        "z3B7UnWMYX0N9cU/qCOmcWxrBj0h68I+ZYxoH2TtEsDj6x0r5WdpkhwM9/mOUPJMvHdvzFO9xHgn+46XPAVU3auOXGGrya6sEV8e"
        "+zLFteoHy/Niu6XYyoEiX6mxcuOTDWuH9hof/Y9Cg1o4jFN37oWusozLa0FbLi6Oje16TskJkoXA+5Ru46nk1jKAQ90Nr2ilBc8+"
        "4y6BtTyW54Q3xLyBhRcfQtN0Z0aUQ889BCtFA7nkmbwwQ578AQ14NRg="
    ),
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_frame(tmp_path / "rows.pkl", COLUMNS)
    assert read_frame(tmp_path / "rows.pkl", "fix") == COLUMNS


@pytest.mark.parametrize("version", PANDAS)
def test_frames_of_pandas_are_read(version: str, tmp_path: Path) -> None:
    (tmp_path / "rows.pkl").write_bytes(zlib.decompress(base64.b64decode(PANDAS[version])))
    assert read_frame(tmp_path / "rows.pkl", "fix") == {
        "input": ["a", "b"],
        "tok_input": [[1, 2], [3]],
        "n": [1, 2],
    }


class Touching:
    """Pickled, it makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("where", ["alone", "in a cell"])
def test_a_pickle_that_runs_something_is_refused_before_it_does(where: str, tmp_path: Path) -> None:
    hostile, touched = Touching(tmp_path / "touched"), tmp_path / "touched"
    if where == "alone":
        (tmp_path / "rows.pkl").write_bytes(pickle.dumps(hostile))
    else:
        write_frame(tmp_path / "rows.pkl", {**COLUMNS, "extra": [hostile, 1, 2]})
    with pytest.raises(HarnessError, match=r"rows.pkl is not opened: it names posix.mkdir, and a frame") as caught:
        read_frame(tmp_path / "rows.pkl", "bring another")
    assert caught.value.fix == "bring another"
    assert not touched.exists()


def test_a_frame_that_is_cut_off_is_named_wherever_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "rows.pkl"
    write_frame(path, COLUMNS)
    whole = path.read_bytes()
    for end in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:end])
        with pytest.raises(HarnessError, match=r"rows\.pkl"):
            read_frame(path, "fix")


pa = pytest.importorskip("pyarrow")


parquet = pytest.importorskip("pyarrow.parquet")


def test_rows_are_read_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"input": [str(n) for n in range(3000)], "more": [*range(3000)]}), path)
    assert tables.read_table(path, ["input"], "fetch it") == {"input": [str(n) for n in range(3000)]}


def test_text_that_rows_share_is_counted_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_MOST", 1 << 24)
    path = tmp_path / "rows.parquet"
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["x" * 10_000]))
    parquet.write_table(pa.table({"input": repeated}), path, store_schema=False)
    assert path.stat().st_size < 1 << 16
    with pytest.raises(HarnessError, match="unpacks to"):
        tables.read_table(path, ["input"], "fetch it")
