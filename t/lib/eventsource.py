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
        weir("job", "wait-event", "--quiet", first, "start")
        page.go(f"{base}/#token={token}")
        # The jobs are on it when it is loaded, before anything is live.
        assert page.value(f"{row(first)} !== null"), page.text()
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
        # A parent is shown as what it is, with how its children ended; they are under it when it is unfolded.
        parent = weir("submit", "--parameterized", "--meta-required=n", "--job-name=parent", "sh", "-c", "exit $WEIR_META_N")
        text = f"{row(parent)}?.querySelector('.%s').textContent"
        page.wait(f"{text % 'allocs'} == 'no children'")
        assert page.value(text % "type") == "parameterized batch"
        assert page.value(text % "status") == "dispatchable"
        for code in (0, 0, 3):
            last = weir("dispatch", parent, "--meta", f"n={code}")
        page.wait(f"{text % 'allocs'} == '2 completed, 1 failed'")
        assert page.value("document.querySelectorAll('tr.child').length") == 0
        page.value(f"{row(parent)}.querySelector('button').click()")
        page.wait("document.querySelectorAll('tr.child').length == 3")
        page.wait("document.querySelector('tr.child td.status.failed')?.textContent == 'failed'")
        assert page.value("document.querySelector('tr.child td.id').textContent") == last
        weir("dispatch", parent, "--meta", "n=0")
        page.wait("document.querySelectorAll('tr.child').length == 4 && document.querySelectorAll('tr.child td.status.dead').length == 3")
        page.value(f"{row(parent)}.querySelector('button').click()")
        page.wait("document.querySelectorAll('tr.child').length == 0")
        print("ok children")
        # An EventSource of somebody's own sees the same, and goes on where it was after the connection broke.
        events = page.value("""
            new Promise((done) => {
              const source = new EventSource("/v1/jobs/statuses/stream?per_page=5");
              source.addEventListener("page", (event) => {
                source.close();
                done({ id: event.lastEventId, jobs: JSON.parse(event.data).rows.map((row) => row.ID) });
              });
            })""")
        assert events["jobs"] == [parent, first, second], events
        assert events["id"].split("-")[0].isdigit(), events
        assert page.complaints() == [], page.complaints()
        print("ok eventsource")
        # An address of something else lets in as well.
        other = browser.open(f"{base}/v1/jobs#token={token}")
        other.wait("document.body.textContent.startsWith('[')")
        print("ok path")
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
