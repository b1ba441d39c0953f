"""Pages and pictures in a real browser: how they are opened, and what in them would be hard to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DESK, TABLET, PHONE, PAPER = (1280, 900), (641, 900), (360, 800), (680, 900)
"""Width and height of what they are shown on, in pixels. The tablet is just too wide for what a phone gets; paper is A4
within its margins."""
SHOWN = {"desk": DESK, "tablet": TABLET, "phone": PHONE, "paper": PAPER}
FAULTS = Path(__file__).with_suffix(".js").read_text("utf-8")
UNFOLDED = """
for (const folded of document.querySelectorAll("details")) folded.open = true;
return [innerWidth, Math.ceil(document.body.getBoundingClientRect().height)];
"""
STYLE = "body { margin: 0 } svg { display: block; width: 100%; height: auto }"
FRAME = f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>'
"""Around a picture, which is as wide as the window."""


def opened(browser: Any, path: Path, size: tuple[int, int] = DESK, scheme: str = "light") -> Any:
    """A page, or a picture by itself; the scheme is light or dark."""
    if path.suffix == ".svg":
        picture, path = path.read_text("utf-8"), path.with_suffix(".html")
        path.write_text(FRAME + picture[picture.index("<svg") :], "utf-8")
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    media = {"media": "print" if size == PAPER else "screen", "features": features}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    _resize(browser, *size)
    browser.get("about:blank")  # an address that differs behind # alone is not loaded anew
    browser.get_log("browser")  # what another page said
    browser.get(path.as_uri())
    return browser


def faults(browser: Any) -> list[str]:
    """In what is open: a line for each, and for each word on the console."""
    width, height = browser.execute_script(UNFOLDED)
    _resize(browser, width, height + 50)
    found: list[str] = browser.execute_script(FAULTS)
    return found + [entry["message"] for entry in browser.get_log("browser")]


def _resize(browser: Any, width: int, height: int) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width == PHONE[0]}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
