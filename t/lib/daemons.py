"""The processes of an instance: found, started by hand, killed by pid, waited for.

    manager = daemons.of("weir-job-manager")        # of the instance at $WEIR_URI
    daemons.kill9("weir-job-info")                  # and wait until its successor answers
    with daemons.Hand("state") as hand:             # no `weir start`: each daemon by hand, so that a relay or a stand-in fits between
        hand.manager(); hand.info(uri=relay.uri)

Only processes whose command line names this instance's state directory are ever touched.
"""
import os
import signal
import subprocess
import sys

import wire

BIN = os.environ.get("WEIR_BIN") or os.path.join(os.path.dirname(__file__), "..", "..", "target", "debug")
SERVICES = {
    "weir-job-manager": ["job-manager"],
    "weir-job-info": ["job-list", "job-info"],
    "weir-job-runner": ["sched", "job-exec"],
}


def statedir():
    return os.path.dirname(wire.socket_path())


def words_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [word.decode(errors="replace") for word in file.read().split(b"\0")]
    except (FileNotFoundError, ProcessLookupError):
        return []


def find(name, directory=None):
    """Pids of the daemons of that name; a job-runner's node processes are called weir-node."""
    directory = os.path.realpath(directory or statedir())
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        words = words_of(pid)
        if words and os.path.basename(words[0]) == name:
            if any(os.path.realpath(word) == directory for word in words[1:] if word.startswith("/")):
                found.append(int(pid))
    return sorted(found)


def of(name, directory=None):
    """The one pid of that daemon."""
    pids = find(name, directory)
    if len(pids) != 1:
        raise LookupError(f"expected one {name} of this instance, found {pids}")
    return pids[0]


def alive(pid):
    """True unless it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid):
    """Pids of its children."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            found += [int(word) for word in file.read().split()]
    return found


def sleeps(pid):
    """True if it waits for something."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0] == "S"


def gone(pid):
    wire.until(f"process {pid} ends", lambda: not alive(pid))


def answers(name):
    """True if every service of that daemon answers."""
    try:
        client = wire.Client(wait=0)
        try:
            for service in SERVICES[name]:
                client.call(f"{service}.ping", {"seq": 0}, timeout=20)
            if name == "weir-job-runner":
                return client.call("job-manager.queue-status", {}).get("blocked") != "scheduler"
            if name == "weir-job-info":
                return client.call("job-list.stats-get").get("live")
            return True
        finally:
            client.close()
    except (wire.Refused, wire.Lost, OSError):
        return False


def wait_for(name, other_than=None, directory=None):
    """Waits until the daemon runs (not as that pid) and answers; its pid."""
    wire.until(f"{name} is back", lambda: [pid for pid in find(name, directory) if pid != other_than] and answers(name))
    return of(name, directory)


def kill9(name, directory=None):
    """kill -9; waits for the successor, which answers; (old pid, new pid)."""
    old = of(name, directory)
    os.kill(old, signal.SIGKILL)
    return old, wait_for(name, old, directory)


def rss(pid):
    """Resident bytes."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise LookupError(f"process {pid} has no VmRSS")


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Hand:
    """Daemons started one by one; all that still run are ended at the end."""

    def __init__(self, directory):
        self.directory = os.path.abspath(directory)
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        self.uri = f"local://{self.directory}/socket"
        self.running = {}

    def __enter__(self):
        os.environ["WEIR_URI"] = self.uri
        return self

    def __exit__(self, *failed):
        for name in list(self.running):
            self.stop(name)
        # Node processes and shepherds outlive the runner by design; this instance is over.
        for pid in find("weir-node", self.directory):
            os.kill(pid, signal.SIGTERM)
        return False

    def start(self, name, *args, key=None):
        with open(f"{self.directory}/{key or name}.log", "ab") as log:
            process = subprocess.Popen(
                [os.path.join(BIN, name), "--statedir", self.directory, *args], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.running[key or name] = process
        return process

    def manager(self, *args):
        process = self.start("weir-job-manager", *args)
        wire.until("the job-manager answers", lambda: answers("weir-job-manager") or process.poll() is not None)
        if process.poll() is not None:
            raise LookupError(f"weir-job-manager ended with {process.returncode}; see its log in {self.directory}")
        return process

    def info(self, *args, uri=None, ready=True):
        process = self.start("weir-job-info", "--uri", uri or self.uri, *args)
        if ready:
            wire.until("job-info answers", lambda: answers("weir-job-info"))
        return process

    def runner(self, *args, uri=None, ready=True):
        process = self.start("weir-job-runner", "--uri", uri or self.uri, *args)
        if ready:
            wire.until("job-runner answers", lambda: answers("weir-job-runner"))
        return process

    def kill(self, key, number=signal.SIGKILL):
        process = self.running.pop(key)
        process.send_signal(number)
        process.wait(wire.TIMEOUT)

    def stop(self, key):
        process = self.running.pop(key)
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def key(self):
        with open(f"{self.directory}/key", encoding="ascii") as file:
            return file.read().strip()

    def log(self, key):
        with open(f"{self.directory}/{key}.log", encoding="utf-8", errors="replace") as file:
            return file.read()


def main():
    command, name = sys.argv[1:3]
    if command == "pid":
        print(of(name))
    elif command == "find":
        print(*find(name), sep="\n", end="\n" if find(name) else "")
    elif command == "kill9":
        print(*kill9(name))
    elif command == "fds":
        print(open_files(of(name)))
    elif command == "wait":
        print(wait_for(name))
    else:
        sys.exit(f"daemons.py: no command {command}")


if __name__ == "__main__":
    try:
        main()
    except (LookupError, TimeoutError) as error:
        sys.exit(f"daemons.py: {error}")
