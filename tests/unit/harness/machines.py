"""Machines as files below a folder, and as lscpu prints them."""

from __future__ import annotations

from pathlib import Path

XEON = """\
Architecture:            x86_64
  CPU op-mode(s):        32-bit, 64-bit
CPU(s):                  224
Vendor ID:               GenuineIntel
  Model name:            Intel(R) Xeon(R) Platinum 8480C
    Thread(s) per core:  2
    Core(s) per socket:  56
    Socket(s):           2
    CPU max MHz:         3800.0000
Caches (sum of all):
  L1d:                   5.3 MiB (112 instances)
NUMA:
  NUMA node(s):          2
"""
EPYC = """\
Architecture:        x86_64
CPU(s):              384
Thread(s) per core:  2
Core(s) per socket:  96
Socket(s):           2
NUMA node(s):        8
Model name:          AMD EPYC 9654 96-Core Processor
CPU max MHz:         3707,8120
L1d cache:           6 MiB
L2 cache:            192 MiB
L3 cache:            768 MiB
"""
GRACE = """\
Architecture:            aarch64
CPU(s):                  72
Vendor ID:               ARM
  Model name:            Neoverse-V2
    Thread(s) per core:  1
    Core(s) per socket:  72
    Socket(s):           1
    CPU max MHz:         3474.0000
NUMA:
  NUMA node(s):          9
"""
JETSON = """\
Architecture:           aarch64
CPU(s):                 12
Vendor ID:              ARM
Model name:             Cortex-A78AE
Thread(s) per core:     1
Core(s) per cluster:    4
Socket(s):              -
Cluster(s):             3
CPU max MHz:            2201.6001
"""
MODULES = """\
# dmidecode 3.3

Memory Device
\tSize: 64 GB
\tType: DDR5
\tSpeed: 5600 MT/s
\tConfigured Memory Speed: 4800 MT/s

Memory Device
\tSize: 64 GB
\tType: DDR5
\tConfigured Memory Speed: 4800 MT/s

Memory Device
\tSize: No Module Installed
"""


def files(root: Path, **contents: str) -> Path:
    """``proc__meminfo="…"`` is proc/meminfo."""
    for name, text in contents.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
