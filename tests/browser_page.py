"""A page in a real browser: how it is opened, and what is asked of every page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PHONE, DESK = (360, 800), (1200, 900)
WIDTHS = {"desk": 1280, "phone": 400, "paper": 718}


def opened(browser: Any, path: Path, size: tuple[int, int] = DESK) -> Any:
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get_log("browser")  # what another page said
    browser.get(path.as_uri())
    return browser


@contextmanager
def emulated(browser: Any, medium: str, scheme: str) -> Iterator[None]:
    """On a screen, or on paper where the medium is `paper`; the scheme is light or dark."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    media = {"media": "print" if medium == "paper" else "screen", "features": features}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


CUT_OFF = """
const faults = [];
const page = document.documentElement;
if (page.scrollWidth > window.innerWidth) faults.push(`the page is ${page.scrollWidth} wide`);
for (const frame of document.querySelectorAll(".scroll, td, dd, pre, li, p, h1"))
  if (frame.scrollWidth > frame.clientWidth + 1 && getComputedStyle(frame).display !== "inline")
    faults.push(`${frame.tagName} ${frame.className} ${frame.textContent.slice(0, 40)}`);
const seen = (element) => element.getClientRects().length > 0;
for (const picture of document.querySelectorAll("svg[role=group]")) {
  const labels = [...picture.querySelectorAll("text")].filter(seen);
  const boxes = labels.map((label) => label.getBoundingClientRect());
  boxes.forEach((a, i) => {
    if (a.left < -1 || a.right > window.innerWidth + 1) faults.push(`outside: ${labels[i].textContent}`);
    boxes.slice(i + 1).forEach((b, k) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1 && high > 3) faults.push(`${labels[i].textContent} on ${labels[i + 1 + k].textContent}`);
    });
  });
}
return faults;
"""
FAINT = """
const channels = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((part) => {
  const share = part / 255;
  return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
});
const light = (colour) => { const [r, g, b] = channels(colour); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ground = light(getComputedStyle(document.body).backgroundColor);
const faint = (ink) => (Math.max(light(ink), ground) + 0.05) / (Math.min(light(ink), ground) + 0.05) < 4.5;
const texts = "h1, h2, p, dt, dd, td, li, caption, label, legend, output, svg text:not(.inside)";
return [ground, [...document.querySelectorAll(texts)]
  .filter((e) => { const style = getComputedStyle(e); return faint(e.closest("svg") ? style.fill : style.color); })
  .map((e) => e.textContent)];
"""
