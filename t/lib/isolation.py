"""Clients that do not behave, and what the others see of it.

    isolation.py append CLIENTS LINES    so many clients write so many long lines each into the log: prints how many were taken, how many refused
    isolation.py dropped LOGDIR COUNT    waits until the job-manager's logs say that COUNT lines were dropped
    isolation.py connections COUNT       so many clients that come and go at once
"""
import glob
import os
import re
import sys

import wire


def append(clients, lines):
    line = b"x" * 3000
    all_of_them = [wire.Client() for _ in range(clients)]
    accepted = refused = 0
    for client in all_of_them:
        for tag in range(1, lines + 1):
            client.send_frame(wire.frame(wire.REQUEST, "log.append", line, tag=tag))
    for client in all_of_them:
        for tag in range(1, lines + 1):
            errnum = client.response(tag).aux
            accepted += errnum == 0
            refused += errnum == wire.EAGAIN
    print(accepted, refused)


def dropped(directory, count):
    def told():
        found = 0
        for name in glob.glob(os.path.join(directory, "job-manager.log*")):
            with open(name, encoding="utf-8", errors="replace") as file:
                found += sum(int(lines) for lines in re.findall(r"lines of this user's clients were dropped.* lines=(\d+)", file.read()))
        return found >= count

    wire.until(f"{count} lines are told to be dropped", told)


def connections(count):
    for _ in range(count):
        wire.Client().close()


if __name__ == "__main__":
    what, words = sys.argv[1], sys.argv[2:]
    if what == "append":
        append(int(words[0]), int(words[1]))
    elif what == "dropped":
        dropped(words[0], int(words[1]))
    else:
        connections(int(words[0]))
