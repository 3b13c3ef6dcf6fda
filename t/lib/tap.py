"""Follows the native journal and keeps what it got: one JSON line per response, with the batches as they came.

    tap.py FILE [REQUEST]    writes to FILE until it is ended; "ready" on standard output once it is caught up
    batches(FILE)            the responses kept so far
    Tap(request)             the same in this process: reads on until every one of some jobs has an event, or up to a seq

A response kept is {"seq":…,"backlog"?,"caught_up"?,"events":[…]}.
"""
import json
import sys
import time

import wire


class Tap:
    """A journal stream of our own connection."""

    def __init__(self, request=None, uri=None):
        self.client = wire.Client(uri)
        self.tag = self.client.send("job-manager.events", request or {"from": "now"}, streaming=True)
        self.batches, self.events = [], []
        self.seq = self.epoch = None

    def next(self, timeout=wire.TIMEOUT):
        """One response."""
        batch = self.client.answer(self.tag, timeout)
        self.batches.append(batch)
        self.events += batch["events"]
        self.epoch = batch["epoch"]
        self.seq = batch.get("seq", self.seq)
        return batch

    def catch_up(self):
        while not self.next().get("caught_up"):
            pass
        return self

    def complete_to(self, seq, timeout=wire.TIMEOUT):
        """Reads until the stream is complete up to `seq`."""
        deadline = time.monotonic() + timeout
        while self.seq is None or self.seq < seq:
            self.next(max(0.0, deadline - time.monotonic()))
        return self

    def all_have(self, name, ids, timeout=wire.TIMEOUT):
        """Reads until each of these jobs has an event of that name."""
        deadline = time.monotonic() + timeout
        left, at = set(ids), 0
        while True:
            left -= {event.get("id") for event in self.events[at:] if event["entry"]["name"] == name}
            at = len(self.events)
            if not left:
                return self
            self.next(max(0.0, deadline - time.monotonic()))

    def all_clean(self, ids, timeout=wire.TIMEOUT):
        return self.all_have("clean", ids, timeout)

    def close(self):
        self.client.close()


def batches(file):
    with open(file, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def main():
    request = json.loads(sys.argv[2]) if len(sys.argv) > 2 else None
    tap = Tap(request)
    with open(sys.argv[1], "w", encoding="utf-8", buffering=1) as out:
        while True:
            batch = tap.next(3600)
            out.write(json.dumps(batch, ensure_ascii=False, separators=(",", ":")) + "\n")
            tap.batches, tap.events = [], []
            if batch.get("caught_up"):
                print("ready", flush=True)


if __name__ == "__main__":
    try:
        main()
    except (wire.Refused, wire.Lost, TimeoutError) as error:
        sys.exit(f"tap.py: {error}")
