"""What weir shutdown leaves to be waited for, over the wire.

    shutdown.py draining | taken-back | refused
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


def main():
    {"draining": draining, "taken-back": taken_back, "refused": refused}[sys.argv[1]]()


if __name__ == "__main__":
    main()
