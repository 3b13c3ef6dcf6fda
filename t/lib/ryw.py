"""Read your writes: what was answered is seen by whoever asks next, on whatever connection.

    ryw.py bare ROUNDS      submit on one connection, ask by id on another; change, ask; list; end, ask
    ryw.py names ROUNDS     the same through lists and counts
"""
import sys

import survive
import wire


def by_id(rounds):
    writer, reader = wire.Client(), wire.Client()
    writer.call("job-manager.queue-start", {"start": False, "all": True})
    attrs = ["urgency", "priority", "state"]
    previous = None
    for number in range(rounds):
        urgency = number % 31
        answer = writer.call("job-ingest.submit", wire.submission(["true"], urgency=urgency))
        row = reader.call("job-list.list-id", {"id": answer["id"], "attrs": attrs})["job"]
        survive.equal((row["state"], row["urgency"], row["priority"]), (8, urgency, urgency), f"round {number}: job {answer['id']}")
        if number % 3 == 0:
            value = (urgency + 7) % 31
            writer.call("job-manager.urgency", {"id": answer["id"], "urgency": value})
            rows = {row["id"]: row for row in wire.list_jobs(reader, attrs, states=14, limit=50)}
            if answer["id"] in rows:
                survive.equal(rows[answer["id"]]["priority"], value, f"round {number}: priority in the list")
            row = reader.call("job-list.list-id", {"id": answer["id"], "attrs": attrs})["job"]
            survive.equal((row["urgency"], row["priority"]), (value, value), f"round {number}: after the change")
        if number % 5 == 0:
            writer.call("job-manager.priority", {"jobs": [[answer["id"], 31]]})
            first = wire.list_jobs(reader, attrs, states=14, limit=1)[0]
            survive.equal(first["priority"], 4294967295, f"round {number}: first of the list after expedite")
        if previous:
            writer.call("job-manager.raise", {"id": previous, "severity": 0, "type": "cancel"})
            row = reader.call("job-list.list-id", {"id": previous, "attrs": ["state", "result"]})["job"]
            survive.equal((row["state"], row["result"]), (64, 4), f"round {number}: the one before, canceled")
        previous = answer["id"]
    unknown = answer["id"] + (1 << 30)
    try:
        reader.call("job-list.list-id", {"id": unknown, "attrs": []}, timeout=5)
        survive.check(False, f"job {unknown} was never given out and is known")
    except wire.Refused as refused:
        survive.equal(refused.errnum, wire.ENOENT, "errno of an id that was never given out")


def counts(rounds):
    """Many writers whose writes are pipelined; the reader must never be behind the newest answer."""
    writer, reader = wire.Client(), wire.Client()
    for number in range(rounds):
        tags = [writer.send("job-ingest.submit", wire.submission(["true"], urgency=0)) for _ in range(5)]
        answers = [writer.answer(tag) for tag in tags]
        newest = max(answer["seq"] for answer in answers)
        stats = reader.call("job-list.stats-get")
        survive.check(stats["seq"] >= newest, f"round {number}: the list is at {stats['seq']}, {newest} was told")
        states = reader.call("job-list.job-stats", {})["job_states"]
        survive.check(states["sched"] >= 5 * (number + 1), f"round {number}: {states['sched']} are counted")
        text = reader.call("job-info.lookup", {"id": answers[-1]["id"], "keys": ["eventlog"], "flags": 0})["eventlog"]
        survive.equal(len(text.splitlines()), 4, f"round {number}: events that a look-up shows")


if __name__ == "__main__":
    if sys.argv[1] == "bare":
        by_id(int(sys.argv[2]))
    else:
        counts(int(sys.argv[2]))
