"""What every view must look like, measured in the browser: nothing overlaps, sticks out, jumps or is hard to read."""

from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

MOST_SHIFT: Final = 0.05
"""Cumulative layout shift: https://web.dev/articles/cls calls up to 0.1 good."""

_SETTLED: Final = """
() => document.fonts.status === "loaded" && !document.querySelector(".htmx-request, .htmx-settling, .htmx-swapping")
"""

# Text and controls that are drawn over one another, and boxes that are wider than what holds them. What is cut off by
# an ancestor counts only as far as it is seen.
_FAULTS: Final = """
() => {
  const found = [];
  const name = (e) => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") +
    (typeof e.className === "string" && e.className ? "." + e.className.trim().replace(/\\s+/g, ".") : "") +
    " " + JSON.stringify((e.innerText || e.value || "").trim().slice(0, 30));
  const ways = {opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true};
  const shown = (e) => e.checkVisibility(ways);
  const clips = (e) => /(hidden|auto|scroll|clip)/.test(getComputedStyle(e).overflow + getComputedStyle(e).overflowX);

  function seen(box, holder) {
    let {left, top, right, bottom} = box;
    for (let e = holder; e && e !== document.documentElement; e = e.parentElement) {
      if (getComputedStyle(e).clipPath !== "none") return null;
      if (!clips(e) || e === document.body) continue;
      const limits = e.getBoundingClientRect();
      left = Math.max(left, limits.left);
      right = Math.min(right, limits.right);
      top = Math.max(top, limits.top);
      bottom = Math.min(bottom, limits.bottom);
    }
    return right - left > 1 && bottom - top > 1 ? {left, top, right, bottom} : null;
  }

  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    found.push(`the page is ${root.scrollWidth} wide, the window ${root.clientWidth}`);
  }

  // What is behind an open dialog is not there for the reader.
  const scope = document.querySelector("dialog:modal") || document.body;
  const drawn = [];
  const add = (box, element, holder) => {
    const part = seen(box, holder);
    if (part) drawn.push({...part, element});
  };
  const walker = document.createTreeWalker(scope, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !shown(parent) || getComputedStyle(parent).clipPath !== "none") continue;
    if (parent.closest("svg, option, dialog:not([open])")) continue;
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    for (const box of range.getClientRects()) {
      // The box of a line is higher than its letters.
      const spare = Math.max(0, (box.height - parseFloat(getComputedStyle(parent).fontSize)) / 2);
      add({left: box.left, right: box.right, top: box.top + spare, bottom: box.bottom - spare}, parent, parent);
    }
  }
  const controls = "button, input:not([type=hidden]), select, textarea, a.button, svg, img, canvas";
  for (const e of scope.querySelectorAll(controls)) {
    if (shown(e) && !e.closest("dialog:not([open])")) add(e.getBoundingClientRect(), e, e.parentElement);
  }
  drawn.sort((a, b) => a.top - b.top);
  for (let i = 0; i < drawn.length; i++) {
    for (let k = i + 1; k < drawn.length && drawn[k].top < drawn[i].bottom - 1; k++) {
      const [a, b] = [drawn[i], drawn[k]];
      if (a.element.contains(b.element) || b.element.contains(a.element)) continue;
      if ([a, b].some((each) => each.element.closest(".search kbd"))) continue;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1.5 && high > 1.5) {
        found.push(`${name(a.element)} overlaps ${name(b.element)} by ${wide.toFixed(0)}x${high.toFixed(0)}`);
      }
    }
  }

  for (const e of document.body.querySelectorAll("main *, header *")) {
    if (!shown(e) || clips(e) || e.closest("svg, .u-wrap") || getComputedStyle(e).display === "inline") continue;
    if (e.clientWidth && e.scrollWidth > e.clientWidth + 1 && seen(e.getBoundingClientRect(), e.parentElement)) {
      found.push(`${name(e)} holds ${e.scrollWidth} and is ${e.clientWidth} wide`);
    }
  }
  return found.slice(0, 20);
}
"""


def settle(page: Page) -> None:
    """Wait until nothing is loaded any more, apart from the stream of events."""
    page.wait_for_load_state("load")
    page.wait_for_function(_SETTLED)


def faults(page: Page) -> list[str]:
    """Return what overlaps, sticks out, or needs horizontal scrolling."""
    found: list[str] = page.evaluate(_FAULTS)
    return found


def barriers(page: Page, *rules: str) -> list[str]:
    """Return the violations that axe-core finds, by default of all rules."""
    options = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else None
    response: dict[str, Any] = Axe().run(page, options=options).response
    return [
        f"{each['id']}: {each['help']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
        for each in response["violations"]
        for node in each["nodes"][:3]
    ]


def shift(page: Page) -> tuple[float, list[str]]:
    """Return how much what is shown has moved by itself since the page was opened, and what has moved."""
    shifts = page.evaluate("window.seen.shifts")
    return sum(each["value"] for each in shifts), [moved for each in shifts for moved in each["moved"]]


def check_design(page: Page) -> None:
    """Assert that it fits, that it reads well in both colours, and that it has kept still."""
    settle(page)
    check_still(page)
    check_fit(page)
    found = barriers(page)
    page.emulate_media(color_scheme="dark")
    found += barriers(page, "color-contrast")
    page.emulate_media(color_scheme="light")
    assert not found, "\n".join(found)


def check_fit(page: Page) -> None:
    """Assert that nothing overlaps, sticks out, or needs horizontal scrolling."""
    found = faults(page)
    assert not found, "\n".join(found)


def check_still(page: Page) -> None:
    """Assert that what is shown has kept still since the page was opened."""
    moved, what = shift(page)
    assert moved < MOST_SHIFT, f"layout shift {moved:.3f}:\n" + "\n".join(what)
