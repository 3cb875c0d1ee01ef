"""Makes a process believe that it is on the node NODE_NAME."""

import os
import platform

platform.node = lambda: os.environ["NODE_NAME"]
