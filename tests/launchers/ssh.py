"""Stand-in for ssh: the words after the host become one text, which a shell takes apart in the home folder."""

import os
import sys

import starting

FLAGS = ("-T", "-q", "-x", "-4", "-6")
VALUED = ("-o", "-p", "-i", "-l", "-F", "-J")


def main(folder):
    words = sys.argv[2:]
    starting.note(folder, "ssh", words)
    _, (host, *rest) = starting.options("ssh", words, FLAGS, VALUED)
    environment = {"PATH": os.defpath, "HOME": folder}
    shell = ["sh", "-c", " ".join(rest)]
    there = starting.on_node(folder, host, environment)
    sys.exit(starting.run(folder, [(str(os.getpid()), shell, there, folder, True)], hand_on=False))
