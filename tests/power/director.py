"""A director on the loopback interface: the session of the kit's server, with an analyzer that sees 200 W.

``python director.py PORT_FILE``. A command is a line, and so is each answer: the order of a session is the kit's.
"""

import base64
import hashlib
import json
import socketserver
import sys
import time
from pathlib import Path

WATTS = 200.0


class Session(socketserver.StreamRequestHandler):
    def handle(self):
        self.state, self.name, self.said = [], "", []
        for line in self.rfile:
            command = line.decode().strip()
            self.said.append(command)
            self.wfile.write(f"{self.answer(command)}\n".encode())

    def answer(self, command):
        words = command.split(",")
        if words[0] == "time":
            return str(time.time())
        if words[0] == "new":
            self.name = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{words[1]}"
            return f"OK {self.name}"
        if words[:2] == ["session", self.name]:
            return self.step(words[2:])
        if words[0] == "download":
            return base64.b64encode(self.files().get(words[2], b"")).decode()
        return "Error"

    def step(self, words):
        order = [["start", "ranging"], ["stop", "ranging"], ["start", "testing"], ["stop", "testing"], ["done"]]
        if words != order[len(self.state)]:
            return "Error: out of order"
        self.state.append((words, time.time()))
        return "OK"

    def samples(self, mode):
        begin, end = (when for words, when in self.state if words[-1] == mode)
        stamps = [begin + at * 0.1 for at in range(int((end - begin) * 10) + 1)]
        return "".join(
            f"Time,{time.strftime('%m-%d-%Y %H:%M:%S', time.gmtime(at))}.000,Watts,{WATTS:.6f},Volts,230.0,Amps,"
            f"{WATTS / 230 / 0.9:.6f},PF,0.9,Mark,{self.name}_{mode}\n"
            for at in stamps
        ).encode()

    def counted(self):
        """What the analyzer's daemon was asked, with its answer: of all samples, of which each is the same."""
        found = []
        for mode in ("ranging", "testing"):
            count = self.samples(mode).count(b"\n")
            found.append({"cmd": f"Go,1000,0,{self.name}_{mode}", "reply": "Starting untimed measurement"})
            found.append({"cmd": "Watts", "reply": f"Watts,{f'{WATTS:.6f},' * 3}{count},0,{count}"})
        return found

    def files(self):
        files = {
            "power/ptd_logs.txt": b"stand-in\n",
            "power/server.log": b"stand-in\n",
            "ranging/spl.txt": self.samples("ranging"),
            "run_1/spl.txt": self.samples("testing"),
            "run_1/ptd_out.txt": b"stand-in\n",
        }
        digests = {name: hashlib.sha1(data).hexdigest() for name, data in files.items()}
        said = {"session_name": self.name, "messages": self.said, "results": digests, "ptd_messages": self.counted()}
        return {**files, "power/server.json": json.dumps(said).encode()}


if __name__ == "__main__":
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        server.daemon_threads = True
        aside = Path(sys.argv[1] + ".new")
        aside.write_text(str(server.server_address[1]))
        aside.rename(sys.argv[1])
        server.serve_forever()
