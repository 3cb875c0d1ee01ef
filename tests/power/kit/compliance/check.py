"""Stands in for the kit's check: whether client and server tell of one session."""

import json
import sys
from pathlib import Path

told = [json.loads((Path(sys.argv[1]) / f"power/{side}.json").read_text()) for side in ("client", "server")]
print("checked", *(each["session_name"] for each in told))
sys.exit(told[0]["session_name"] != told[1]["session_name"])
