"""Answers each query with a number of its weights. MISCHIEF says what goes wrong, and when."""
import http.server, os, pathlib, signal, subprocess, sys, time

port, starts = int(sys.argv[1]), pathlib.Path(sys.argv[2])
MISCHIEF = os.environ.get("MISCHIEF", "")
weights = bytes(range(16))
asked = 0


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        if self.path == "/health" and MISCHIEF == "goes silent" and asked:
            time.sleep(600)
        if self.path == "/infer":
            asked += 1
            if MISCHIEF == "dies":
                print("out of imagined memory", flush=True)
                os._exit(7)
        body = weights[:1]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def end(*_):
    print("put in order", flush=True)
    with open(starts.with_name("ended"), "a") as stream:
        stream.write("in order\n")
    sys.exit(0)


signal.signal(signal.SIGTERM, end)
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
with open(starts, "a") as stream:
    stream.write(f"{os.getpid()} {worker.pid} {port}\n")
print("loading weights", flush=True)
if MISCHIEF == "never ready":
    time.sleep(600)
if MISCHIEF == "ends at once":
    sys.exit("there is no such device")
time.sleep(0.3)
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
print("ready to serve", flush=True)
server.serve_forever()
