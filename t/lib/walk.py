"""Looks at what t5000-walk.t recorded.

    walk.py order CORES IDS RAISED < journal        the last ten in front of all others, in submit order
    walk.py grouped IDS < tap                        all events of the one request in one batch, without a gap
    walk.py stored STORE IDS                         … and in one row of the log
    walk.py output IDS                               what each job wrote, in this order
    walk.py quiet JOBS                               the same request while nothing else happens: counters, exactly
"""
import json
import sys

import fold
import tap
import wire


def ids_of(file):
    with open(file, encoding="utf-8") as lines:
        return [wire.parse_f58(line) for line in lines]


def fail(text):
    sys.exit(f"walk: {text}")


def order(cores, all_ids, last):
    """`last` is the last ten; the request is in the journal as their urgency events."""
    ids, raised = ids_of(all_ids), ids_of(last)
    events = [json.loads(line) for line in sys.stdin]
    events = sorted((event for event in events if event.get("id") in set(ids)), key=lambda event: event["seq"])
    changes = [event for event in events if event["entry"]["name"] == "urgency"]
    if sorted(event["id"] for event in changes) != sorted(raised):
        fail(f"{len(changes)} urgency events for {len(raised)} jobs")
    done = max(event["seq"] for event in events if event["entry"]["name"] == "priority" and event["id"] in set(raised))
    after = [event["id"] for event in events if event["seq"] > done and event["entry"]["name"] == "alloc"]
    theirs = [ident for ident in after if ident in set(raised)]
    if theirs != raised:
        fail(f"the raised ones were started in the order {theirs}, submitted in {raised}")
    others = [ident for ident in after[: after.index(raised[-1])] if ident not in set(raised)]
    if len(others) > cores:
        fail(f"{len(others)} others were started before the last of the raised: {others}")
    waited = len(after) - len(theirs)
    if waited < 20:
        fail(f"only {waited} others still waited: the walk shows nothing")
    print(f"{len(others)} of {waited} others started between")


def grouped(raised):
    changed = set(ids_of(raised))
    for batch in map(json.loads, sys.stdin):
        mine = [e for e in batch["events"] if e.get("id") in changed and e["entry"]["name"] in ("urgency", "priority")]
        if any(event["entry"]["name"] == "urgency" for event in mine):
            mine = [event for event in mine if event["eventlog_seq"] > 4]
            seqs = [event["seq"] for event in mine]
            if seqs != list(range(seqs[0], seqs[0] + 2 * len(changed))):
                fail(f"the batch holds {seqs} of the request's {2 * len(changed)} events")
            return
    fail("no batch holds the request")


def stored(store, raised):
    changed = set(ids_of(raised))
    db = fold.open_store(store)
    for first, last, lines in db.execute("SELECT first_seq, last_seq, lines FROM log ORDER BY last_seq"):
        rows = [fold.split_line(line) for line in fold.text_of(lines).splitlines()]
        mine = [seq for seq, ident, _, event in rows if ident in changed and event["name"] == "urgency"]
        if mine:
            if len(mine) != len(changed):
                fail(f"row {first}-{last} of the log holds {len(mine)} of {len(changed)} changes")
            return
    fail("the change is not in the log")


def output(ids):
    client = wire.Client()
    tags = [client.send("job-info.lookup", {"id": ident, "keys": ["guest.output"], "flags": 0}) for ident in ids_of(ids)]
    for tag in tags:
        for line in client.answer(tag)["guest.output"].splitlines():
            entry = json.loads(line)
            if entry["name"] == "data" and "data" in entry["context"]:
                sys.stdout.write(entry["context"]["data"])


def stats(client):
    return client.call("job-manager.stats-get"), client.call("job-list.stats-get")


def settled(client):
    """The counters once every listener has all there is."""
    seen = []

    def same():
        seen.append(stats(client))
        return len(seen) > 1 and seen[-1][0]["journal"]["entries_delivered"] == seen[-2][0]["journal"]["entries_delivered"]

    wire.until("listeners have what there is", same, pause=0.1)
    return seen[-1]


def quiet(jobs):
    """Nothing runs: the counters move by this one request alone."""
    client = wire.Client()
    client.call("job-manager.queue-start", {"start": False, "all": True, "reason": "test"})
    ids = [client.call("job-ingest.submit", wire.submission(["true"]))["id"] for _ in range(jobs)]
    listener = tap.Tap().catch_up()
    wire.list_jobs(client, ["state"], limit=1)
    # Listeners that are not asked through get their batches a moment later.
    before, before_list = settled(client)
    answer = client.call("job-manager.priority", {"jobs": [[ident, 31] for ident in ids[-10:]]})
    listener.complete_to(answer["seq"])
    top = [row["id"] for row in wire.list_jobs(client, ["state"], states=14, limit=10)]
    after, after_list = settled(client)
    if top != ids[-10:]:
        fail(f"the listing right after shows {top}, not {ids[-10:]}")
    listeners = before["journal"]["listeners"]
    expected = {
        ("manager", "commits"): 1,
        ("manager", "reorder_passes"): 1,
        ("manager", "entries"): 20,
        ("store", "commits"): 1,
        ("store", "syncs"): 1,
        ("journal", "batches"): listeners,
        ("journal", "entries_delivered"): 20 * listeners,
    }
    for (part, counter), due in expected.items():
        met = after[part][counter] - before[part][counter]
        if met != due:
            fail(f"job-manager's {part}.{counter} moved by {met}, not {due}")
    for counter, due in {"reorder_passes": 1, "events": 20}.items():
        met = after_list["journal"][counter] - before_list["journal"][counter]
        if met != due:
            fail(f"job-list's {counter} moved by {met}, not {due}")
    got = [batch for batch in listener.batches if batch["events"]]
    if len(got) != 1 or len(got[0]["events"]) != 20:
        fail(f"a listener got {[len(batch['events']) for batch in got]} events in batches, not 20 in one")
    for ident in ids:
        client.call("job-manager.raise", {"id": ident, "severity": 0, "type": "cancel"})
    client.call("job-manager.queue-start", {"start": True, "all": True})
    print(f"{listeners} listeners")


if __name__ == "__main__":
    what, arguments = sys.argv[1], sys.argv[2:]
    if what == "order":
        order(int(arguments[0]), *arguments[1:])
    elif what == "grouped":
        grouped(*arguments)
    elif what == "stored":
        stored(*arguments)
    elif what == "output":
        output(*arguments)
    elif what == "quiet":
        quiet(int(arguments[0]))
