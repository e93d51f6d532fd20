#!/usr/bin/env python3
"""Makes the generated site whole without a network, and looks for what the generator's own checks do not see:
Markdown that was taken for text, and what is loaded from elsewhere."""
import html.parser
import os
import pathlib
import re
import shutil
import sys

SHIM = re.compile(r"https://[a-z.]+/iframe-worker/shim")
OUR_SHIM = pathlib.Path(__file__).with_name("iframe-worker.js")

LOADS = {"script": "src", "img": "src", "link": "href", "iframe": "src"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.problems = []
        self.code = 0

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.code += tag in ("code", "pre", "script", "style")
        loaded = given.get(LOADS.get(tag, ""), "") or ""
        if re.match(r"(https?:)?//", loaded) and given.get("rel") != "canonical":
            self.problems.append(f"loads {loaded}")

    def handle_endtag(self, tag):
        self.code -= tag in ("code", "pre", "script", "style")

    def handle_data(self, data):
        if not self.code and re.search(r"^\s*([-*] |\d+\. |\|.*\|\s*$)|```|\]\(", data, re.M):
            self.problems.append(f"text that looks like Markdown: {data.strip()[:80]!r}")


def main(site):
    found = 0
    shim = site / "assets" / OUR_SHIM.name
    shutil.copyfile(OUR_SHIM, shim)
    for path in sorted(site.rglob("*.html")):
        text = SHIM.sub(os.path.relpath(shim, path.parent), path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")
        page = Page()
        page.feed(text)
        for problem in page.problems:
            print(f"{path.relative_to(site)}: {problem}", file=sys.stderr)
        found += len(page.problems)
    sys.exit(1 if found else 0)


main(pathlib.Path(sys.argv[1]))
