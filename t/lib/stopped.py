"""A listener that is stopped for so many events, beside the same run without one.

    stopped.py EVENTS RING

Two runs of one instance each: job-manager alone, a hundred held jobs whose urgency changes until so many events have happened, one listener
that reads all the time. In the second run another one, `weir journal`, is stopped from its first events on. The job-manager may need only
a little more memory for it, the quick listener is never more than one batch behind, and the stopped one has everything in order when it
goes on.
"""
import json
import os
import signal
import sys

import daemons
import links
import survive
import tap
import wire

GROWTH_MAX = 16 << 20
JOBS = 100


def change(client, number):
    """Two events a job; the newest seq."""
    return client.call("job-manager.priority", {"jobs": [[ident, 1 + number % 14] for ident in change.ids]})["seq"]


def run(events, ring, with_stopped):
    """The job-manager's resident memory at the end."""
    name = "with" if with_stopped else "without"
    with daemons.Hand(name) as hand:
        hand.manager(f"--journal-size-limit={ring}")
        client = wire.Client()
        # They hold the scheduler's place: nothing starts without one.
        change.ids = [client.call("job-ingest.submit", wire.submission(["true"], urgency=1))["id"] for _ in range(JOBS)]
        first = change(client, 0)
        epoch = tap.Tap().next()["epoch"]
        quick = tap.Tap({"after": first, "epoch": epoch}).catch_up()
        slow = None
        if with_stopped:
            with open("slow", "w", encoding="utf-8") as out:
                slow = links.journal(hand.uri, f"--after={first}", f"--epoch={epoch}", out=out)
            told = change(client, 1)
            wire.until("the slow listener has its first events", lambda: len(links.lines("slow")) == told - first)
            os.kill(slow.pid, signal.SIGSTOP)
        newest, number, due = first, 1, first
        most_behind = 0
        while newest < first + events:
            newest, number = change(client, number + 1), number + 1
            batches = 0
            while quick.seq < newest:
                batch = quick.next()
                batches += bool(batch["events"])
                for event in batch["events"]:
                    due += 1
                    survive.check(event["seq"] == due, f"seq {event['seq']} came where {due} was due")
            most_behind = max(most_behind, batches)
            quick.batches, quick.events = [], []
        # One batch may have been under way when the last one was made.
        survive.check(most_behind <= 2, f"the quick listener was {most_behind} batches behind")
        stats = client.call("job-manager.stats-get")["journal"]
        survive.check(stats["ring_entries"] == ring, f"the ring holds {stats['ring_entries']}, not {ring}: more events are needed")
        memory = daemons.rss(daemons.of("weir-job-manager"))
        if slow:
            os.kill(slow.pid, signal.SIGCONT)
            wire.until("the stopped listener has all", lambda: last(slow) >= newest)
            slow.terminate()
            slow.wait(wire.TIMEOUT)
            at = first
            with open("slow", encoding="utf-8") as printed:
                for line in printed:
                    at += 1
                    survive.check(json.loads(line)["seq"] == at, f"the stopped listener: {line[:80]} came where {at} was due")
        return memory


def last(slow):
    """The newest seq it printed."""
    survive.equal(slow.poll(), None, "status of the stopped listener")
    with open("slow", "rb") as text:
        text.seek(max(0, os.path.getsize("slow") - 65536))
        whole = [line for line in text.read().split(b"\n")[:-1] if line.startswith(b"{")]
    return json.loads(whole[-1])["seq"] if whole else 0


def main(events, ring):
    without = run(events, ring, False)
    with_one = run(events, ring, True)
    print(f"{events} events: {without >> 10} KiB without, {with_one >> 10} KiB with a stopped listener")
    survive.check(with_one - without < GROWTH_MAX, f"a stopped listener costs {(with_one - without) >> 10} KiB")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
