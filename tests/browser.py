"""A real browser for the tests: headless Chromium over the DevTools protocol, and nothing else."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
_SECONDS = 30.0


class Page:
    """One open page: commands go out, events are kept."""

    def __init__(self, socket: Any, session: str):
        self.socket, self.session, self.count = socket, session, 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its answer."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters, "sessionId": self.session}
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.recv(timeout=_SECONDS))
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def run(self, script: str) -> Any:
        """The value of an expression, awaited where it is a promise."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(json.dumps(done["exceptionDetails"])[:500])
        return done["result"].get("value")

    def wait(self, condition: str, seconds: float = _SECONDS) -> None:
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"Never true: {condition}")
            time.sleep(0.02)

    def size(self, width: int, height: int = 900, dark: bool = False) -> None:
        """The window, and the user's wish for dark or light."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        wish = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=wish)

    def open(self, path: Path) -> None:
        """Load a file and wait until its script has finished."""
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def draw_all(self, within: str = "body") -> None:
        """Scroll until every figure within the chosen elements has been drawn."""
        self.wait("document.documentElement.dataset.ready === 'yes'")
        left = f"document.querySelector(':is({within}) figure.panel:not([data-drawn])')"
        end = time.monotonic() + _SECONDS
        while self.run(f"Boolean({left})"):
            if time.monotonic() > end:
                raise TimeoutError(f"Never drawn: figure {self.run(left + '.dataset.panel')}.")
            self.run(f"{left}?.scrollIntoView({{block: 'center', behavior: 'instant'}})")
            self.run("new Promise(done => setTimeout(done, 30))")

    def key(self, key: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 else "")

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse at one point, let go at another."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=start[0], y=start[1])
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], button="left", clickCount=1)
        for share in (0.3, 0.6, 1.0):
            x, y = (a + share * (b - a) for a, b in zip(start, end, strict=True))
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], button="left", clickCount=1)

    def said(self, method: str) -> list[dict[str, Any]]:
        """Parameters of all events of one kind so far."""
        self.run("0")
        return [e["params"] for e in self.events if e.get("method") == method]

    def complaints(self) -> list[str]:
        """Errors and warnings on the console, uncaught exceptions, and blocked loads."""
        found = [str(e["args"]) for e in self.said("Runtime.consoleAPICalled") if e["type"] in ("error", "warning")]
        found += [e["exceptionDetails"]["text"] for e in self.said("Runtime.exceptionThrown")]
        return found + [e["entry"]["text"] for e in self.said("Log.entryAdded")]

    def requests(self) -> list[str]:
        """Addresses of everything the page asked for, itself left out."""
        asked = [e["request"]["url"] for e in self.said("Network.requestWillBeSent")]
        return [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))]


@contextmanager
def browser() -> Iterator[Any]:
    """A running browser; call what it yields for a new page."""
    from websockets.sync.client import connect

    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = ["--headless=new", "--disable-gpu", "--remote-debugging-port=0", "--hide-scrollbars", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
                 f"--user-data-dir={profile}"]  # fmt: skip
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            flags.append("--no-sandbox")
        process = subprocess.Popen(
            [CHROMIUM, *flags, "about:blank"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        try:
            with connect(_address(Path(profile) / "DevToolsActivePort", process), max_size=None, proxy=None) as socket:
                yield lambda: _page(socket)
        finally:
            process.terminate()
            process.wait(timeout=10)


def _address(file: Path, process: subprocess.Popen) -> str:
    end = time.monotonic() + _SECONDS
    while not (file.exists() and len(lines := file.read_text().split()) == 2):
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError("Chromium did not start.")
        time.sleep(0.02)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"


def _page(socket: Any) -> Page:
    root = Page(socket, "")
    target = _call(socket, "Target.createTarget", url="about:blank")["targetId"]
    root.session = _call(socket, "Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        root.call(f"{domain}.enable")
    return root


def _call(socket: Any, method: str, **parameters: Any) -> dict[str, Any]:
    socket.send(json.dumps({"id": 0, "method": method, "params": parameters}))
    while True:
        answer = json.loads(socket.recv(timeout=_SECONDS))
        if answer.get("id") == 0:
            return answer["result"]
