#!/usr/bin/env python3
"""Copies the pages, and what they link to, into a folder: laid out as in the source.

A link to a folder becomes one to its README.md, and where it has none, its text alone: a site has no folders.
"""
import os
import pathlib
import re
import shutil
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "client", "bgworker", "examples", "test/simulation")
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|`[^`]*`)*)\]\(([^()\s#:]+)(#[^()\s]*)?\)")
TARGET = re.compile(r"\]\(([^()\s#:]+)(?:#[^()\s]*)?\)") # of links and images, also of links over two lines
FENCE = re.compile(r"^ *```")


def pages():
    found = sorted(SOURCE.glob("*.md"))
    for folder in FOLDERS:
        found += sorted((SOURCE / folder).rglob("*.md"))
    return found


def copy(target, path):
    place = target / path.relative_to(SOURCE)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, place)


def without_folders(line, page, target):
    def link(match):
        text, path, anchor = match[1], match[2], match[3] or ""
        linked = pathlib.Path(os.path.normpath(page.parent / path))
        if SOURCE not in linked.parents:
            return match[0]
        if linked.is_dir():
            readme = linked / "README.md"
            return f"[{text}]({path.rstrip('/')}/README.md{anchor})" if readme in PAGES else text
        return match[0]

    for path in TARGET.findall(line):
        linked = pathlib.Path(os.path.normpath(page.parent / path))
        if SOURCE in linked.parents and linked.is_file() and linked.suffix != ".md":
            copy(target, linked)
    return LINK.sub(link, line)


PAGES = pages()


def main(target):
    for page in PAGES:
        fenced, lines = False, []
        for line in page.read_text(encoding="utf-8").splitlines(keepends=True):
            fenced ^= bool(FENCE.match(line))
            lines.append(line if fenced else without_folders(line, page, target))
        place = target / page.relative_to(SOURCE)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(lines), encoding="utf-8")


main(pathlib.Path(sys.argv[1]).resolve())
