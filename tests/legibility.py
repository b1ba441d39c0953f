"""What makes text in a picture hard to read, as a browser sees it: for SVG files by themselves and within pages."""

from __future__ import annotations

from typing import Any

FAULTS = """
const channels = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((part) => {
  const share = part / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
});
const light = (colour) => { const [r, g, b] = channels(colour); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
const painted = (colour) => colour.startsWith("rgb") && !/^rgba.*, 0\\)$/.test(colour);
// What lies behind a point of a text: a filled shape, a line that strikes it through, or the ground.
const behind = (x, y) => {
  for (const element of document.elementsFromPoint(x, y)) {
    if (["text", "tspan", "title"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    if (painted(style.backgroundColor)) return style.backgroundColor;
    if (!(element instanceof SVGGeometryElement || element.tagName === "use")) continue;
    if (painted(style.fill)) return style.fill;
    if (painted(style.stroke)) return style.stroke;
  }
  return "rgb(255, 255, 255)";
};
// Places all over a text, upright or turned by a quarter.
const places = (box) => Array.from({ length: 11 }, (_, k) => {
  const along = (k + 1) / 12, across = [0.35, 0.5, 0.65][k % 3];
  const [x, y] = box.width >= box.height ? [along, across] : [across, along];
  return [box.left + box.width * x, box.top + box.height * y];
});
const within = (box, frame, slack) =>
  box.left >= frame.left - slack && box.right <= frame.right + slack &&
  box.top >= frame.top - slack && box.bottom <= frame.bottom + slack;
const faults = [];
for (const picture of document.querySelectorAll("svg.pipeplan")) {
  const frame = picture.getBoundingClientRect();
  const scale = frame.width / picture.viewBox.baseVal.width;
  const texts = [...picture.querySelectorAll("text")].filter((text) => text.textContent.trim());
  const boxes = texts.map((text) => text.getBoundingClientRect());
  texts.forEach((text, i) => {
    const words = text.textContent.trim(), box = boxes[i], style = getComputedStyle(text);
    if (!within(box, frame, scale)) faults.push(`cut off: ${words}`);
    if (parseFloat(style.fontSize) < 8) faults.push(`smaller than 8 pt: ${words}`);
    const ground = places(box).map(([x, y]) => behind(x, y)).find((ground) => contrast(style.fill, ground) < 4.5);
    if (ground !== undefined) faults.push(`faint: ${words}, ${style.fill} on ${ground}`);
    boxes.slice(i + 1).forEach((other, k) => {
      const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
      const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
      if (wide > scale && high > 3 * scale) faults.push(`${words} on ${texts[i + 1 + k].textContent.trim()}`);
    });
  });
}
return faults;
"""
"""Cut off by the edge, too small as written, too faint for what lies behind it, or on other text: a line for each."""


def faults_of(browser: Any) -> list[str]:
    """In what is open."""
    found: list[str] = browser.execute_script(FAULTS)
    return found


def shown_as(browser: Any, width: int, scheme: str) -> None:
    """From now on, in a window so wide and as high as any picture; `scheme`: light or dark."""
    size = {"width": width, "height": 3000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen", "features": features})


def page_of(svg: str) -> str:
    """A page that shows one picture, as wide as itself, on its own light or dark ground."""
    drawing = svg[svg.index("<svg") :]
    style = "body { margin: 0 } svg { display: block; width: 100%; height: auto }"
    return f'<!doctype html><meta charset="utf-8"><style>{style}</style>{drawing}'
