"""A second fold: the table of all jobs from events alone, written from rfc/ and sharing no code with weir.

    of_journal(lines)   from `weir journal --from all --json`
    of_archive(file)    from the store's eventlogs, one a job (sqlite3, read-only)
    of_log(file)        from the store's log, all entries in one order
    of_listing(client)  what job-info says: not a fold, but in the same shape

Each gives a Table; `compare` says where two differ, row by row in listing order, attribute by attribute. A fold fails at once on
an event that cannot be: out of order, twice, of an unknown job, or against the transition table. As a program: fold.py FILE prints
the table of a journal, a JSON row a line, in listing order.
"""
import json
import os
import sqlite3
import sys

import wire

STATES = {"NEW": 1, "DEPEND": 2, "PRIORITY": 4, "SCHED": 8, "RUN": 16, "CLEANUP": 32, "INACTIVE": 64}
COMPLETED, FAILED, CANCELED, TIMEOUT = 1, 2, 4, 8


class Impossible(Exception):
    """Events that cannot have happened in this order."""


def count_idset(text):
    total = 0
    for piece in text.strip("[]").split(","):
        if piece:
            low, _, high = piece.partition("-")
            total += int(high or low) - int(low) + 1
    return total


def merge(target, changes):
    """Annotations: objects merge, null deletes, what becomes empty goes."""
    for key, value in changes.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            inner = target.get(key)
            inner = inner if isinstance(inner, dict) else {}
            merge(inner, value)
            if inner:
                target[key] = inner
            else:
                target.pop(key, None)
        else:
            target[key] = value


class Job:
    """One job, from its events."""

    def __init__(self, ident):
        self.row = {"id": ident}
        self.state = None
        self.events = 0
        self.exception = None
        self.fatal_first = False
        self.seen = set()
        self.r = None
        self.annotations = {}

    def fail(self, event):
        raise Impossible(f"job {self.row['id']}: {event['name']} in {self.state} after {self.events} events: {event}")

    def enter(self, state, event):
        self.state = state
        self.row["state"] = STATES[state]
        key = "t_" + state.lower()
        if state in ("RUN", "CLEANUP", "INACTIVE") or key not in self.row:
            self.row[key] = event["timestamp"]

    def need(self, event, *states):
        if self.state not in states:
            self.fail(event)

    def apply(self, event, number, jobspec=None, r=None):
        self.events += 1
        if number != self.events:
            raise Impossible(f"job {self.row['id']}: entry {number} came where {self.events} was due: {event}")
        name, context = event["name"], event.get("context", {})
        if name == "submit":
            if self.state is not None:
                self.fail(event)
            self.state = "NEW"
            self.row.update(userid=context["userid"], urgency=context["urgency"], t_submit=event["timestamp"], state=1)
            self.take_jobspec(jobspec)
        elif self.state is None:
            self.fail(event)
        elif name == "validate":
            self.need(event, "NEW")
            self.enter("DEPEND", event)
        elif name == "depend":
            self.need(event, "DEPEND")
            self.enter("PRIORITY", event)
        elif name == "priority":
            self.need(event, "PRIORITY", "SCHED")
            self.row["priority"] = context["priority"]
            if self.state == "PRIORITY":
                self.enter("SCHED", event)
        elif name == "urgency":
            self.need(event, "DEPEND", "PRIORITY", "SCHED")
            self.row["urgency"] = context["urgency"]
            if self.state == "SCHED":
                self.row.pop("priority", None)
                self.state, self.row["state"] = "PRIORITY", STATES["PRIORITY"]
        elif name == "alloc":
            self.need(event, "SCHED")
            self.once(event)
            merge(self.annotations, context.get("annotations") or {})
            self.take_r(r)
            self.enter("RUN", event)
        elif name == "start":
            self.need(event, "RUN", "CLEANUP")
            self.once(event)
        elif name == "finish":
            self.need(event, "RUN", "CLEANUP")
            self.once(event)
            self.row["waitstatus"] = context["status"]
            if self.state == "RUN":
                self.enter("CLEANUP", event)
        elif name == "exception":
            self.raise_(event, context)
        elif name == "release":
            self.need(event, "RUN", "CLEANUP")
        elif name == "alloc-status":
            # Legal while the job holds resources; no column of a listing shows it.
            self.need(event, "RUN", "CLEANUP")
            if "free" in self.seen or not all(one["ranks"] and one["status"] for one in context["allocs"]):
                self.fail(event)
        elif name == "free":
            self.need(event, "CLEANUP")
            self.once(event)
            if "alloc" not in self.seen:
                self.fail(event)
        elif name == "clean":
            self.need(event, "CLEANUP")
            self.once(event)
            if "alloc" in self.seen and "free" not in self.seen:
                self.fail(event)
            self.enter("INACTIVE", event)
            self.close()
        elif name == "annotations":
            self.annotations = context.get("annotations") or {}
        elif name == "memo":
            merge(self.annotations, {"user": context})
        elif not name.startswith("debug."):
            self.fail(event)
        if self.annotations:
            self.row["annotations"] = self.annotations
        else:
            self.row.pop("annotations", None)

    def once(self, event):
        if event["name"] in self.seen:
            self.fail(event)
        self.seen.add(event["name"])

    def raise_(self, event, context):
        if self.state == "INACTIVE":
            self.fail(event)
        severity = context["severity"]
        if self.exception is None or severity < self.exception["severity"]:
            self.exception = context
        if severity == 0:
            if "waitstatus" not in self.row:
                self.fatal_first = True
            if self.state != "CLEANUP":
                self.enter("CLEANUP", event)

    def close(self):
        row = self.row
        row["success"] = row.get("waitstatus") == 0 and not self.fatal_first
        row["exception_occurred"] = self.exception is not None
        kind = None
        if self.exception:
            kind = self.exception["type"]
            row.update(
                exception_severity=self.exception["severity"], exception_type=kind, exception_note=self.exception.get("note", "")
            )
        row["result"] = COMPLETED if row["success"] else {"cancel": CANCELED, "timeout": TIMEOUT}.get(kind, FAILED)

    def take_jobspec(self, jobspec):
        if jobspec is None:
            raise Impossible(f"job {self.row['id']}: submit without its jobspec")
        if "environment" in jobspec["attributes"]["system"]:
            raise Impossible(f"job {self.row['id']}: the jobspec in the journal has an environment")
        system, task = jobspec["attributes"]["system"], jobspec["tasks"][0]
        slot, nodes = jobspec["resources"][0], 1
        if slot["type"] == "node":
            nodes, slot = slot["count"], slot["with"][0]
            self.row["nnodes"] = nodes
        slots = nodes * slot["count"]
        self.row["ntasks"] = task["count"].get("total", slots * task["count"].get("per_slot", 1))
        self.row["ncores"] = slots * sum(child["count"] for child in slot["with"] if child["type"] == "core")
        self.row["duration"] = float(system.get("duration", 0))
        self.row["name"] = system.get("job", {}).get("name", os.path.basename(task["command"][0]))
        for key in ("cwd", "queue", "project", "bank"):
            if key in system:
                self.row[key] = system[key]

    def take_r(self, r):
        if r is None:
            raise Impossible(f"job {self.row['id']}: alloc without its R")
        execution = r["execution"]
        lite = execution["R_lite"]
        ranks = ",".join(entry["rank"] for entry in lite)
        nodes = count_idset(ranks)
        self.row["ranks"] = f"[{ranks}]" if nodes > 1 else ranks
        self.row["nnodes"] = nodes
        self.row["ncores"] = sum(count_idset(entry["rank"]) * count_idset(entry["children"]["core"]) for entry in lite)
        self.row["nodelist"] = ",".join(execution["nodelist"])
        self.row["expiration"] = float(execution["expiration"])


class Table:
    """All jobs; `order()` is the listing's order."""

    def __init__(self, jobs, newest=None):
        self.rows = {row["id"]: row for row in jobs}
        self.newest = newest

    def groups(self):
        rows = self.rows.values()
        pending = [row for row in rows if row["state"] in (2, 4, 8)]
        running = [row for row in rows if row["state"] in (16, 32)]
        inactive = [row for row in rows if row["state"] == 64]
        pending.sort(key=lambda row: (-row.get("priority", 0), row["id"]))
        running.sort(key=lambda row: (-row["t_run"] if "t_run" in row else 0, -row["id"]))
        inactive.sort(key=lambda row: (-row["t_inactive"], -row["id"]))
        return {"pending": pending, "running": running, "inactive": inactive}

    def order(self):
        return [row for rows in self.groups().values() for row in rows]


class Fold:
    """Entries in the order of their seq, or (archive) job by job."""

    def __init__(self):
        self.jobs = {}
        self.newest = 0
        self.last_time = 0.0

    def entry(self, seq, ident, number, event, jobspec=None, r=None, ordered=True):
        if ordered:
            if seq <= self.newest:
                raise Impossible(f"seq {seq} after {self.newest}: {event}")
            self.newest = seq
            if event["timestamp"] < self.last_time:
                raise Impossible(f"time went back from {self.last_time}: {event}")
            self.last_time = event["timestamp"]
        if ident is None:
            return
        if ident not in self.jobs:
            if event["name"] != "submit":
                raise Impossible(f"an event of a job that was not submitted: {ident} {event}")
            self.jobs[ident] = Job(ident)
        self.jobs[ident].apply(event, number, jobspec, r)

    def table(self):
        return Table([job.row for job in self.jobs.values()], self.newest)


def of_journal(lines):
    """From lines of `weir journal --json` that began with --from all. A backlog comes job by job, what follows in order."""
    fold = Fold()
    for line in lines:
        line = json.loads(line)
        fold.entry(
            line["seq"], line.get("id"), line["eventlog_seq"], line["entry"], line.get("jobspec"), line.get("R"), ordered=False
        )
        fold.newest = max(fold.newest, line["seq"])
    return fold.table()


def open_store(file):
    return sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=20)


def split_line(line):
    """SEQ SOURCE ESEQ USERID LOG JSON"""
    seq, source, number, _userid, _log, text = line.split(" ", 5)
    return int(seq), int(source) if source.isdigit() else None, int(number), json.loads(text)


def text_of(value):
    return value.decode() if isinstance(value, bytes) else value


def attached(db):
    """id -> (jobspec, R) as the store has them."""
    rows = db.execute("SELECT job.id, blob.data, job.r FROM job LEFT JOIN blob ON blob.id = job.spec")
    return {ident: (json.loads(text_of(spec)), json.loads(text_of(r)) if r else None) for ident, spec, r in rows}


def of_log(file):
    """From the store's log; every seq from 1 must be there."""
    db, fold = open_store(file), Fold()
    things = attached(db)
    due = 1
    for first, last, lines in db.execute("SELECT first_seq, last_seq, lines FROM log ORDER BY last_seq"):
        if first != due:
            raise Impossible(f"the log has a hole: {due} was due, {first} came")
        for line in text_of(lines).splitlines():
            seq, ident, number, event = split_line(line)
            if seq != due:
                raise Impossible(f"the log has a hole: {due} was due, {seq} came")
            due += 1
            fold.entry(seq, ident, number, event, *things.get(ident, (None, None)))
        if due != last + 1:
            raise Impossible(f"row {first}-{last} of the log ends at {due - 1}")
    db.close()
    return fold.table()


def of_archive(file):
    """From the eventlog of each job, as the view joblog puts it together."""
    db, fold = open_store(file), Fold()
    things = attached(db)
    for ident, active, log in db.execute("SELECT job.id, job.active, joblog.lines FROM job JOIN joblog USING (id) ORDER BY job.id"):
        for line in text_of(log).splitlines():
            seq, source, number, event = split_line(line)
            if source != ident:
                raise Impossible(f"an event of {source} in the eventlog of {ident}")
            fold.entry(seq, ident, number, event, *things[ident], ordered=False)
        if bool(active) != (fold.jobs[ident].state != "INACTIVE"):
            raise Impossible(f"job {ident}: column active is {active}, its events say {fold.jobs[ident].state}")
    db.close()
    return fold.table()


def of_listing(client):
    """job-info's three listings; the order is kept as it came."""
    rows = wire.list_jobs(client)
    table = Table(rows)
    table.order = lambda: rows
    return table


def compare(left, right, names):
    """A list of differences, element by element in listing order; empty if there is none."""
    one, other = left.order(), right.order()
    found = []
    if [row["id"] for row in one] != [row["id"] for row in other]:
        found.append(f"order differs: {names[0]} has {len(one)} rows, {names[1]} {len(other)}")
        for at, (a, b) in enumerate(zip(one, other)):
            if a["id"] != b["id"]:
                found.append(f"  first at {at}: {a} / {b}")
                break
        missing = set(left.rows) ^ set(right.rows)
        if missing:
            found.append(f"  only in one of them: {sorted(missing)[:10]}")
    for ident in sorted(left.rows.keys() & right.rows.keys()):
        a, b = left.rows[ident], right.rows[ident]
        for key in sorted(a.keys() | b.keys()):
            if a.get(key) != b.get(key):
                found.append(f"job {ident}: {key} is {a.get(key)!r} in {names[0]}, {b.get(key)!r} in {names[1]}")
    return found


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as journal:
        for row in of_journal(journal).order():
            print(json.dumps(row, ensure_ascii=False))
