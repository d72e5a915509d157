"""A reader of self-contained pages, for tests of what is in them without scripts."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class PageReader(HTMLParser):
    """Checks that tags nest, and collects text, attributes and the data."""

    VOID = frozenset({"meta", "link", "input", "br"})

    def __init__(self, content: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self.feed(content.decode())
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.data += data if self.tags[-1][1].get("id") == "data" else ""
        elif self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def names_nothing_outside(content: bytes) -> None:
    """A page asks for nothing but itself, and says so to the browser."""
    page = content.decode()
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|import\(", page)
    policies = [one["content"] for _, one in PageReader(content).tags if one.get("http-equiv")]
    assert len(policies) == 1
    assert str(policies[0]).startswith("default-src 'none'")
