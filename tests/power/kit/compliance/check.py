"""Stand-in for the kit's check: whether client and server report one session."""

import json
import sys
from pathlib import Path

reported = [json.loads((Path(sys.argv[1]) / f"power/{side}.json").read_text()) for side in ("client", "server")]
print("checked", *(each["session_name"] for each in reported))
sys.exit(reported[0]["session_name"] != reported[1]["session_name"])
