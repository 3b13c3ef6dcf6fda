"""What weir shutdown leaves to be waited for, over the wire.

    shutdown.py draining | taken-back | refused
    shutdown.py fill            memos on the first job that waits, until the disk is full
"""
import sys

import survive
import wire


def blocked():
    try:
        return wire.Client().call("job-manager.queue-status", {}).get("blocked")
    except (wire.Refused, wire.Lost, OSError):
        return "away"


def draining():
    wire.until("the instance is draining", lambda: blocked() == "shutdown")


def taken_back():
    wire.until("the shutdown is taken back", lambda: blocked() is None)


def refused():
    client = wire.Client()
    try:
        client.call("job-manager.shutdown", {})
        survive.check(False, "a shutdown that is no stream was taken")
    except wire.Refused as refusal:
        survive.equal(refusal.errnum, wire.EPROTO, "errno of a shutdown that is no stream")
    survive.equal(blocked(), None, "what blocks the queue")


def fill():
    client = wire.Client()
    ident = wire.list_jobs(client, ["state"], 8)[0]["id"]
    for at in range(10_000):
        try:
            client.call("job-manager.memo", {"id": ident, "memo": {"fill": f"{at:06}" * 10_000}})
        except wire.Refused as refused:
            survive.equal(refused.errnum, 28, "errno of a memo that does not fit")
            return
    survive.check(False, "the disk does not fill up")


def main():
    {"draining": draining, "taken-back": taken_back, "refused": refused, "fill": fill}[sys.argv[1]]()


if __name__ == "__main__":
    main()
