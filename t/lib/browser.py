"""Debian's Chromium, headless, driven over a pipe (the DevTools protocol on descriptors 3 and 4): for tests of pages.

    browser = Browser()
    page = browser.open("http://127.0.0.1:1234/")
    page.wait("document.title == 'weir: jobs'")     until the expression is true, or the test fails
    page.value("location.hash")

Nothing but loopback is asked for; the profile is a directory that goes away. No waiting by time: wait() hears of every change of the page.
"""

import json
import os
import shutil
import subprocess
import tempfile

WITHIN = 60  # seconds for anything; nothing takes that long when all is well
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions",
    "--remote-debugging-pipe",
]

# Settles when the expression is true: looked at now, and after every change of the document.
WAIT = """
new Promise((done, failed) => {
  const look = () => { try { return %s } catch (error) { return false } };
  if (look()) return done(true);
  const seen = new MutationObserver(() => { if (look()) { seen.disconnect(); done(true); } });
  seen.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  setTimeout(() => failed(new Error("never true")), %d);
})
"""


class Browser:
    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="weir-browser-")
        commands, self.out = os.pipe()
        self.into, answers = os.pipe()

        def descriptors():
            # Copies first: one of the two may be 3 or 4 itself.
            read, write = os.dup(commands), os.dup(answers)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            ["chromium", *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.buffer = b""
        self.last = 0
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, session=None, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            met = self._next()
            if met.get("id") == self.last:
                if "error" in met:
                    raise RuntimeError(f"{method}: {met['error']['message']}")
                return met["result"]
            self.events.append(met)

    def _next(self):
        while b"\0" not in self.buffer:
            part = os.read(self.into, 1 << 16)
            if not part:
                raise RuntimeError("chromium ended")
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def open(self, url):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.go(url)
        return page


class Page:
    def __init__(self, browser, session):
        self.browser = browser
        self.session = session

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def go(self, url):
        begun = len(self.browser.events)
        error = self.call("Page.navigate", url=url).get("errorText")
        if error:
            raise RuntimeError(f"{url}: {error}")
        while not any(event.get("method") == "Page.loadEventFired" for event in self.browser.events[begun:]):
            self.browser.events.append(self.browser._next())

    def value(self, expression):
        """What an expression comes to; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {answer['exceptionDetails']}\nthe page says: {self.text()}")
        return answer["result"].get("value")

    def wait(self, expression):
        self.value(WAIT % (expression, WITHIN * 1000))

    def text(self):
        answer = self.call("Runtime.evaluate", expression="document.body.innerText", returnByValue=True)
        return answer["result"].get("value")

    def complaints(self):
        """What the console has of errors, and every address outside of loopback that was asked for."""
        found = []
        for event in self.browser.events:
            params = event.get("params", {})
            if event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            if event.get("method") == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("http://127.0.0.1:", "about:", "data:")):
                    found.append(url)
        return found
