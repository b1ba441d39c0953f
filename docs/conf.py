"""The documentation site: MyST markdown and the executed lessons through Sphinx.

Pages below `reference/` are made from the code, those below `lessons/` from the notebooks.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from html import escape
from pathlib import Path
from typing import Any

import mathjax
from docutils import nodes
from sphinx.util import logging

logger = logging.getLogger("lessons")
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import generate  # noqa: E402
import lesson_pages  # noqa: E402
import model_pages  # noqa: E402
import site_map  # noqa: E402

project = "pipeplan"
author = "The pipeplan developers"
extensions = ["myst_nb"]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "pipeplan"
# Where the site stands, as https://.../: to be filled in, here alone. Search engines are then told one address a page.
html_baseurl = ""
html_css_files = ["site.css"]
# Formulas need no network: MathJax in one file, with its fonts, lies beside the pages.
MATHJAX = Path(mathjax.__file__).parent / "static" / "mathjax" / "es5" / "tex-svg.js"
html_static_path = ["_static", str(MATHJAX)]
html_search_scorer = str(Path(__file__).with_name("search_score.js"))
mathjax_path = MATHJAX.name
# The notebooks are there to be downloaded; the text of a page is of no use beside them.
html_copy_source = False
exclude_patterns = ["_build"]
nitpicky = True
# The pages that explore a pipeline and the memory of a training; beside explore.html, which is their documentation.
html_extra_path = ["reference/explorer.html", "reference/memory.html"]
# JSON with a comment or an ellipsis in it is shown as it is.
suppress_warnings = ["misc.highlighting_failure"]

DESCRIPTIONS = {**tomllib.loads((HERE / "descriptions.toml").read_text("utf-8")), **lesson_pages.descriptions()}

EXECUTED = HERE / "_build" / "executed"
nb_execution_mode = "cache"
nb_execution_cache_path = str(EXECUTED / lesson_pages.state_of_the_code())
# A lesson that runs for more seconds than this counts as hung, even on a slow machine.
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide"


def _generate(app: Any, config: Any) -> None:
    generate.write_all(HERE / "reference")
    lesson_pages.write_all(HERE / "lessons")
    model_pages.write_listings(HERE / "code")
    site_map.write_tables(HERE / "tables")
    for old in EXECUTED.glob("*"):
        if old != Path(nb_execution_cache_path):
            shutil.rmtree(old)


def _lead_on(app: Any, docname: str, source: list[str]) -> None:
    """Links to lessons and raw tables, and from the rows of a model to their lines; lists as the site's sidebar."""
    source[0] = site_map.from_docs(lesson_pages.from_docs(source[0]))
    if docname in site_map.ADDED:
        source[0] = site_map.ADDED[docname](source[0])
    if docname.startswith("models/"):
        source[0] = model_pages.linked(source[0])


def _describe(app: Any, docname: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """What search engines say of the page."""
    told = DESCRIPTIONS.get(docname)
    if told is not None:
        context["metatags"] += f'<meta name="description" content="{escape(told)}" />\n'


def _anchor_lines(app: Any, doctree: nodes.document, docname: str) -> None:
    """Every line of a listing of ours can be linked to."""
    if docname.startswith("code/"):
        for block in doctree.findall(nodes.literal_block):
            block.setdefault("highlight_args", {})["linespans"] = "L"


def _time_lessons(app: Any, env: Any) -> None:
    """The limit is for the whole lesson, nbclient's is for each cell; with -W a warning fails the build."""
    limit = app.config.nb_execution_timeout
    for page, facts in sorted(env.nb_metadata.items()):
        seconds = facts.get("exec_data", {}).get("runtime")
        if seconds is not None and seconds > limit:
            logger.warning("%s took %.0f s to execute; a lesson may take %d s", page, seconds, limit)


def _redirect(app: Any, exception: Exception | None) -> None:
    """Old addresses lead to new ones."""
    if exception is None and app.builder.format == "html":
        for name, text in site_map.redirects():
            (Path(app.outdir) / name).write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    # Before Sphinx looks whether the extra files are there.
    app.connect("config-inited", _generate, priority=400)
    app.connect("source-read", _lead_on)
    app.connect("doctree-resolved", _anchor_lines)
    app.connect("html-page-context", _describe)
    app.connect("env-updated", _time_lessons)
    app.connect("build-finished", _redirect)
