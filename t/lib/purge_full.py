"""A small file system that is full of jobs that have ended: a purge is possible, and makes room for new ones. ./state is mounted.

    purge_full.py SIZE      in a mount namespace of its own (`unshare -m`)
"""
import os
import sys

import daemons
import disk_full
import survive
import wire


def ended(client):
    """Jobs that were cancelled, until the disk is full: how many there are at least."""
    told = 0
    while True:
        survive.check(told < 10_000, "the disk does not fill up")
        try:
            for number in range(20):
                disk_full.submit(client, told + number, urgency=0)
            told += client.call("job-manager.raiseall", {"dry_run": False, "userid": 0xFFFFFFFF, "states": 62, "severity": 0, "type": "cancel"})["count"]
        except wire.Refused as refused:
            survive.equal(refused.errnum, disk_full.ENOSPC, f"errno of a refused change ({refused.text})")
            return told


def main(size):
    os.makedirs(disk_full.STATE, exist_ok=True)
    disk_full.mount("-o", f"size={size},mode=700")
    os.environ["WEIR_URI"] = f"local://{disk_full.STATE}/socket"
    supervisor = disk_full.start()
    try:
        fill_and_purge(size)
    finally:
        disk_full.stop(supervisor)


def fill_and_purge(size):
    client = wire.Client()
    for turn in range(2):
        told = ended(client)
        survive.check(told > 20, f"{told} jobs fill {size}")
        disk_full.refused_at_the_command_line()
        said = disk_full.weir("job", "purge", "--all", "--force")
        survive.equal(said.returncode, 0, f"status of a purge on a full disk: {said.stderr}")
        print(f"{told} jobs filled {size}; {said.stdout.strip()}")

        def taken():
            try:
                return disk_full.submit(client, 0, urgency=0)
            except wire.Refused as refused:
                survive.equal(refused.errnum, disk_full.ENOSPC, f"errno of a submit ({refused.text})")
                return None

        kept = wire.until("submits are taken again after the purge", taken)["id"]
        if turn == 0:
            daemons.kill9("weir-job-manager")
            for name in daemons.SERVICES:
                daemons.wait_for(name)
            client = wire.Client()
        rows = wire.list_jobs(client, ["state"])
        survive.equal([row["id"] for row in rows if row["id"] == kept], [kept], "the job that was taken then")


if __name__ == "__main__":
    main(sys.argv[1])
