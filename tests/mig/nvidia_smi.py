"""As much of nvidia-smi as makes and takes away slices, of the devices in devices.txt next to it."""

import sys
import uuid
from pathlib import Path

DEVICES = Path(__file__).parent / "devices.txt"


def main(words):
    gpu = int(words[words.index("-i") + 1])
    lines = DEVICES.read_text().splitlines()
    owner = [n for n, line in enumerate(lines) if line.startswith("gpu ")][gpu]
    kind, identity, bus, mode, name = lines[owner].split(" ", 4)
    parts = [line for line in lines if line.startswith((f"slice {gpu} ", f"instance {gpu} "))]
    if "-mig" in words:
        if parts:
            sys.exit("In use by another client")
        lines[owner] = " ".join([kind, identity, bus, words[words.index("-mig") + 1], name])
    elif "-cgi" in words:
        profile = words[words.index("-cgi") + 1]
        if mode != "1" or "-C" not in words:
            sys.exit("MIG mode is not enabled")
        number = max([6, *(int(part.split()[2]) for part in parts)]) + 1
        memory = int(profile.partition("g.")[2].removesuffix("gb")) * 1024 - 512
        lines.append(f"slice {gpu} {number} MIG-{uuid.uuid4()} {memory} {name} MIG {profile}")
    else:
        number = int(words[words.index("-gi") + 1])
        at = next((n for n, line in enumerate(lines) if line.split()[1:3] == [str(gpu), str(number)]), None)
        if at is None or lines[at].startswith("gpu") or ("-dgi" in words) == lines[at].startswith("slice"):
            sys.exit(f"No such instance, or in use: {number}")
        lines[at] = lines[at].replace("slice", "instance", 1)
        if "-dgi" in words:
            del lines[at]
    DEVICES.write_text("\n".join(lines) + "\n")


main(sys.argv[1:])
