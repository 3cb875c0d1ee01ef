"""Stand-in for the analyzer's licensed daemon, as the power kit's server speaks to it: 200 W, a sample each second.

Started by the kit's server with the daemon's own options (-l LOG, -p PORT, ...). What only a real meter can show, such
as its ranges and its uncertainty, is made up. Answers have the fields of those in published sessions (v4.1, v5.1).
"""

import argparse
import socketserver
import time
from pathlib import Path

WATTS, VOLTS, FACTOR = 200.0, 230.0, 0.95
AMPS = WATTS / VOLTS / FACTOR

parser = argparse.ArgumentParser()
parser.add_argument("-l", type=Path)
parser.add_argument("-p", type=int)
options, _ = parser.parse_known_args()


def stamp(at):
    return f"{time.strftime('%m-%d-%Y %H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1000):03}"


def write(text):
    """On its output, which the kit keeps and reads."""
    print(f"{stamp(time.time())}: {text}", flush=True)


class Client(socketserver.StreamRequestHandler):
    began, ended, mark = 0.0, 0.0, ""

    def handle(self):
        for line in self.rfile:
            for at, reply in enumerate(self.answer(line.decode().strip())):
                self.wfile.write(f"{reply}\r\n".encode())
                if at == 0:
                    write(f"Response to client sent: {reply}")

    def answer(self, command):
        words = command.split(",")
        if words[0] == "Go":
            type(self).began, type(self).ended, type(self).mark = time.time(), 0.0, words[3]
            write(f"Go with mark '{words[3]}'")
            for entry in range(200):  # as talkative as the real one: the kit's server keeps its output by whole buffers
                write(f"the stand-in has nothing to say of entry {entry}")
            return ["Starting untimed measurement, maximum 500000 samples at 1000ms with 0 rampup samples"]
        if words[0] == "Stop":
            type(self).ended = time.time()
            write("Completed test")
            with options.l.open("a") as log:
                log.writelines(f"{sample},Mark,{self.mark}\n" for sample in self.samples())
            return ["Stopping untimed measurement"]
        if words[0] == "RL":
            found = self.samples()
            return [f"Last {len(found)} samples", *found]
        count = len(self.samples()) if self.began else 0
        said = {
            "Hello": "Hello, PTDaemon here!",
            "Identify": "YokogawaWT310,1000,1,1,1,1,0,0,1,version=1.11.1-0,OS=Linux,mode=power,1,1,1,0,0,no_cal_date,-",
            "RR": "Ranges,0,1.000000,0,300.000000",
            "SR": f"Range {words[1] if len(words) > 1 else ''} changed",
            "Watts": f"Watts,{f'{WATTS:.6f},' * 3}{count},0,{count}",
            "Uncertainty": f"Uncertainty,{'0.005000,' * 3}{count},0,{count},0",
        }
        return [said.get(words[0], "Unknown command")]

    def samples(self):
        """So far, while it measures."""
        count = int((self.ended or time.time()) - self.began) + 1
        stamps = (self.began + at for at in range(count))
        return [
            f"Time,{stamp(at)},Watts,{WATTS:.6f},Volts,{VOLTS:.6f},Amps,{AMPS:.6f},PF,{FACTOR:.6f}" for at in stamps
        ]


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


write("Uncertainty checking for YokogawaWT310 is activated")
with Server(("127.0.0.1", options.p), Client) as server:
    server.serve_forever()
