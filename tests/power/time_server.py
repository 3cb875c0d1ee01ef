"""A time server on 127.0.0.1 with this machine's own time, as the power kit asks for it (RFC 5905, port 123)."""

import socket
import struct
import time

_SINCE_1900 = 2208988800  # seconds from 1900 to 1970


def stamp():
    now = time.time() + _SINCE_1900
    return struct.pack("!II", int(now), int(now % 1 * 2**32))


with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.bind(("127.0.0.1", 123))
    while True:
        asked, who = server.recvfrom(512)
        received = stamp()
        head = struct.pack("!BBBbII4s", 0x24, 1, 4, -20, 0, 0, b"LOCL")
        server.sendto(head + received + asked[40:48] + received + stamp(), who)
