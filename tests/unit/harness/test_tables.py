"""Rows of published prompts: what a file unpacks to is counted while it is read, whatever it says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.benchmarks.language import tables
from harness.errors import HarnessError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def test_rows_are_read_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"input": [str(n) for n in range(3000)], "more": [*range(3000)]}), path)
    assert tables.read_table(path, ["input"], "fetch it") == {"input": [str(n) for n in range(3000)]}


def test_text_that_is_stored_once_for_all_rows_is_counted_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_MOST", 1 << 24)
    path = tmp_path / "rows.parquet"
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["x" * 10_000]))
    parquet.write_table(pa.table({"input": repeated}), path, store_schema=False)
    assert path.stat().st_size < 1 << 16
    with pytest.raises(HarnessError, match="unpacks to"):
        tables.read_table(path, ["input"], "fetch it")
