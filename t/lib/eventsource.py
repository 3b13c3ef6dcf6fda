"""A browser and the live page: eventsource.py STATEDIR PID, where PID is weir-job-info's. Jobs are submitted with the weir command meanwhile."""

import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402


def weir(*words):
    return subprocess.run(["weir", *words], check=True, capture_output=True, text=True).stdout.strip()


def row(job):
    """The row of a job, as the page has it; ids are written in ASCII there."""
    return f'document.querySelector(`tr[data-job="{job}"]`)'


def main(statedir, info):
    address = open(f"{statedir}/http").read().strip()
    token = open(f"{statedir}/http-token").read().strip()
    base = f"http://{address}"
    evil = "<img src=x onerror=document.title='owned'>"
    first = weir("submit", f"--job-name={evil}", "sleep", "600")
    with Browser() as browser:
        # Without a token the page opens, and says how one gets in.
        page = browser.open(f"{base}/")
        page.wait("document.getElementById('state').textContent.includes('weir open')")
        # With one in the fragment: it becomes a cookie and goes from the address.
        page.go("about:blank")
        browser.events.clear()
        page.go(f"{base}/#token={token}")
        page.wait(f"{row(first)} && {row(first)}.querySelector('.status').textContent == 'running'")
        page.wait("document.getElementById('state').textContent == 'live'")
        assert page.value("location.href") == f"{base}/", page.value("location.href")
        assert page.value("document.cookie") == "", "scripts do not see the cookie"
        # A name is text, whatever is in it.
        assert page.value(f"{row(first)}.querySelector('.name').textContent") == evil
        assert page.value("document.images.length") == 0 and page.value("document.title") == "weir: jobs"
        print("ok page")
        # A change comes by itself: a new job on top, and the end of another.
        second = weir("submit", "--urgency=hold", "--job-name=second", "true")
        page.wait(f"document.querySelector('tbody tr') == {row(second)}")
        assert page.value(f"{row(second)}.querySelector('.status').textContent") == "pending"
        weir("cancel", first)
        page.wait(f"{row(first)}.querySelector('.status').textContent == 'canceled'")
        print("ok change")
        # An EventSource of somebody's own sees the same, and goes on where it was after the connection broke.
        events = page.value("""
            new Promise((done) => {
              const source = new EventSource("/v1/jobs/statuses/stream?per_page=5");
              source.addEventListener("page", (event) => {
                source.close();
                done({ id: event.lastEventId, jobs: JSON.parse(event.data).rows.map((row) => row.ID) });
              });
            })""")
        assert events["jobs"] == [first, second], events
        assert events["id"].split("-")[0].isdigit(), events
        assert page.complaints() == [], page.complaints()
        print("ok eventsource")
        # The server dies and comes back, at the same address: the page goes on by itself, and what happened meanwhile is on it.
        os.kill(info, signal.SIGKILL)
        third = weir("submit", "--urgency=hold", "--job-name=third", "true")
        page.wait(f"{row(third)} && document.getElementById('state').textContent == 'live'")
        print("ok restart")
        # From the page of another server nothing can be asked, with the cookie or without.
        other = browser.open("data:text/html,<title>elsewhere</title>")
        asked = other.value(f"fetch('{base}/v1/jobs', {{credentials: 'include'}}).then(() => 'read', () => 'kept out')")
        assert asked == "kept out", asked
        print("ok elsewhere")


main(sys.argv[1], int(sys.argv[2]))
