"""kill -9 of each daemon under load, and of readers: what was printed, joined, is the journal read once at the end, entry by entry.

    resume.py daemons ROUNDS    each of the three daemons so often, one after another; two readers live through all of it:
                                one `weir journal` that is never touched, and one that is killed and started again as often,
                                with its cursor file
    resume.py reader TIMES      no daemon is killed; a reader is, so often, and goes on behind the last line it printed

On the instance at $WEIR_URI. Purged jobs are the one thing that may be missing from the journal at the end.
"""
import json
import os
import random
import signal
import sys

import daemons
import links
import rounds
import survive
import tap
import wire

URI = os.environ.get("WEIR_URI")


class Reader:
    """`weir journal` into FILE, killed and started again: behind its last line, or with a cursor file."""

    def __init__(self, name, cursor_file):
        self.name, self.cursor_file, self.process = name, cursor_file, None
        self.epoch = tap.Tap().next()["epoch"]
        self.starts = self.repeated = 0
        open(name, "w", encoding="utf-8").close()
        self.start()

    def start(self):
        """Begins, or goes on."""
        self.starts += 1
        words = ["--from=all", f"--cursor-file={self.name}.at"]
        if not self.cursor_file:
            self.cut_half_line()
            printed = links.lines(self.name)
            words = [f"--after={json.loads(printed[-1])['seq']}", f"--epoch={self.epoch}"] if printed else ["--from=all"]
        with open(self.name, "a", encoding="utf-8") as out:
            self.process = links.journal(URI, *words, out=out)

    def cut_half_line(self):
        """What a kill left of a line is no line."""
        with open(self.name, "rb+") as text:
            text.truncate(text.read().rfind(b"\n") + 1)

    def kill(self):
        survive.equal(self.process.poll(), None, f"status of reader {self.name}")
        self.process.kill()
        self.process.communicate(timeout=wire.TIMEOUT)

    def end(self, due):
        """All that was due is printed; the lines, joined."""
        last = due[-1]["seq"]

        def has_all():
            survive.equal(self.process.poll(), None, f"status of reader {self.name}")
            printed = links.lines(self.name)
            return printed and json.loads(printed[-1])["seq"] >= last

        wire.until(f"reader {self.name} has all", has_all)
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=wire.TIMEOUT)
        if self.cursor_file:
            return self.joined()
        return links.lines(self.name)

    def joined(self):
        """A reader that is killed after it wrote and before it noted the cursor says the last events again, with their seqs: never others."""
        kept, newest = [], 0
        with open(self.name, "rb") as text:
            for line in text.read().split(b"\n"):
                try:
                    seq = json.loads(line)["seq"]
                except ValueError:
                    continue
                if seq <= newest:
                    self.repeated += 1
                    survive.check(json.loads(kept[seq - 1 - kept_from(kept)])["seq"] == seq, "what is said again was not said before")
                    continue
                newest = seq
                kept.append(line.decode())
        return kept


def kept_from(kept):
    return json.loads(kept[0])["seq"] - 1


def caught_up(reader):
    """The reader has printed something that it was not started with."""
    before = len(links.lines(reader.name))
    return lambda: len(links.lines(reader.name)) > before


def by_daemons(count):
    chance = random.Random(count)
    steady, restarted = Reader("steady", False), Reader("restarted", True)
    wire.until("a cursor file is there", lambda: os.path.exists("restarted.at"))
    load = rounds.Load()
    load.start()
    kills = 0
    for _ in range(count):
        for name in daemons.SERVICES:
            target = len(load.expected) + chance.randint(1, 3)
            wire.until("the load goes on", lambda target=target: len(load.expected) >= target or load.failed)
            daemons.kill9(name)
            kills += 1
            if chance.random() < 0.5:
                restarted.kill()
                restarted.start()
    rounds.finish(load)
    client = wire.Client()
    survive.ended_well(client, {ident: status for ident, status in load.expected.items() if ident not in load.canceled})
    survive.check(all(len(pids) == 1 for pids in survive.bodies().values()), "a body began twice")
    survive.all_free(survive.CORES)
    survive.compare_all()
    due = links.whole(URI)
    for reader in (steady, restarted):
        links.same_as_whole(reader.end(due), due)
    print(f"{kills} kills of daemons, {restarted.starts - 1} of a reader ({restarted.repeated} events said again), {load.lost} lost connections, "
          f"{len(load.expected)} jobs, {len(due)} events")


def by_reader(times):
    reader = Reader("killed", False)
    load = rounds.Load()
    load.start()
    for _ in range(times):
        wire.until("the reader goes on", caught_up(reader))
        reader.kill()
        reader.start()
    rounds.finish(load)
    due = links.whole(URI)
    links.same_as_whole(reader.end(due), due)
    print(f"resumed {reader.starts - 1} times, {len(due)} events")


if __name__ == "__main__":
    {"daemons": by_daemons, "reader": by_reader}[sys.argv[1]](int(sys.argv[2]))
