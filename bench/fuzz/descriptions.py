"""Damaged robot descriptions: URDF with wrong values, structure, or no XML at all."""

from __future__ import annotations

import re
from random import Random

from bench.fuzz.odd_values import odd_number, odd_text

_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_ELEMENT = re.compile(r"<(link|joint|inertial|limit|axis|parent|child|origin|mass|inertia)\b")

DEPTH = 20_000
"""Nesting depth of a document that overflows a recursive parser [elements]."""

_BOMB = (
    '<?xml version="1.0"?><!DOCTYPE robot [<!ENTITY a "aaaaaaaaaa">'
    '<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">'
    '<!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;">]><robot name="&d;"><link name="a"/></robot>'
)
_EXTERNAL = (
    '<?xml version="1.0"?><!DOCTYPE robot [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
    '<robot name="&x;"><link name="a"/></robot>'
)
_WHOLE = (
    "", "   \n", "not XML", "<robot", "<robot/>", '<robot name="r"/>', "{}", "null", "\0", _BOMB,
    _EXTERNAL, '<robot name="r"><xacro:include filename="x"/></robot>',
)  # fmt: skip


def odd_description(random: Random, urdf: str) -> str:
    """Return a damaged copy of a URDF, or a text that is not a URDF.

    Args:
        random: source of all choices.
        urdf: a valid description as text.
    """
    choice = random.random()
    if choice < 0.1:
        return random.choice(_WHOLE)
    if choice < 0.11:
        return f'<robot name="deep">{"<a>" * DEPTH}{"</a>" * DEPTH}</robot>'
    text = urdf
    for _ in range(random.choice((1, 1, 2, 4))):
        text = random.choice(_CHANGES)(random, text)
    return text


def _attribute(random: Random, text: str) -> str:
    """Replace the value of one attribute."""
    found = list(_ATTRIBUTE.finditer(text))
    if not found:
        return text
    match = random.choice(found)
    numbers = match[2].split()
    if random.random() < 0.7 and numbers:
        numbers[random.randrange(len(numbers))] = repr(odd_number(random))
        value = " ".join(numbers)
    else:
        value = re.sub(r'[<>"&]', "", odd_text(random))
    return text[: match.start(2)] + value + text[match.end(2) :]


def _swap(random: Random, text: str) -> str:
    """Give one attribute the value of another, which makes loops and unknown names."""
    found = list(_ATTRIBUTE.finditer(text))
    if len(found) < 2:
        return text
    target, source = random.sample(found, 2)
    return text[: target.start(2)] + source[2] + text[target.end(2) :]


def _rename(random: Random, text: str) -> str:
    """Disable an element or attribute by giving it an unknown name."""
    pattern = random.choice((_ELEMENT, _ATTRIBUTE))
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = random.choice(found)
    return f"{text[: match.start(1)]}other{text[match.end(1) :]}"


def _cut(random: Random, text: str) -> str:
    """Remove a piece, often from some place to the end."""
    begin = random.randrange(len(text) + 1)
    end = len(text) if random.random() < 0.5 else begin + random.randrange(200)
    return text[:begin] + text[end:]


def _repeat(random: Random, text: str) -> str:
    """Repeat a joint or link, which makes duplicate names."""
    found = re.findall(r"<(?:joint|link)\b.*?</(?:joint|link)>", text, re.DOTALL)
    if not found:
        return text
    return text.replace("</robot>", f"{random.choice(found)}</robot>")


def _noise(random: Random, text: str) -> str:
    """Insert random text somewhere."""
    at = random.randrange(len(text) + 1)
    return text[:at] + odd_text(random) + text[at:]


_CHANGES = (_attribute, _attribute, _attribute, _swap, _rename, _cut, _repeat, _noise)
