"""Writes ``topology/migration/names.py``: the names that each version of ActiveMQ Classic and Artemis knows.

``python -m deploy.broker_names FOLDER`` fetches a jar of each minor version, as in :data:`PUBLISHED`, into the
folder, and reads its XML schema.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from defusedxml.ElementTree import fromstring
from jgo.maven import MavenContext

from kafka_redelivery.topology.migration import names

XS: Final = "{http://www.w3.org/2001/XMLSchema}"
_ONE_LINE: Final = 84

PUBLISHED: Final = {
    "activemq": {
        "org.apache.activemq:activemq-core": "5.0.0 5.1.0 5.2.0 5.3.2 5.4.3 5.5.1 5.6.0 5.7.0",
        "org.apache.activemq:activemq-spring": """
            5.8.0 5.9.1 5.10.2 5.11.4 5.12.3 5.13.5 5.14.5 5.15.16 5.16.8 5.17.7 5.18.6 5.19.1 6.0.1 6.1.8 6.2.4 6.3.1
            """,
    },
    "artemis": {
        "org.apache.activemq:artemis-server": """
            2.0.0 2.1.0 2.2.0 2.3.0 2.4.0 2.5.0 2.6.4 2.7.0 2.8.1 2.9.0 2.10.1 2.11.0 2.12.0 2.13.0 2.14.0 2.15.0
            2.16.0 2.17.0 2.18.0 2.19.1 2.20.0 2.21.0 2.22.0 2.23.1 2.24.0 2.25.0 2.26.0 2.27.1 2.28.0 2.29.0 2.30.0
            2.31.2 2.32.0 2.33.0 2.34.0 2.35.0 2.36.0 2.37.0 2.38.0 2.39.0 2.40.0 2.41.0 2.42.0 2.43.0 2.44.0
            """,
        "org.apache.artemis:artemis-server": "2.50.0 2.51.0 2.52.0 2.53.0 2.54.0 2.55.0 2.56.0",
    },
}
"""The jars that hold a schema, and their versions."""

LATER: Final = {
    ("broker", "maxInflatedDataSize"): ("5.19", "6.2"),
    ("connectionFactory", "maxInflatedDataSizeRatio"): ("5.19", "6.2"),
    ("policyEntry", "allowTempDestinationStealing"): ("5.19", "6.2"),
}
"""Names of Classic that came with patches 5.19.8 and 6.2.7, whose schemas are not published, from their source."""

SCHEMAS: Final = {"activemq": "activemq.xsd", "artemis": "schema/artemis-configuration.xsd"}
BEANS: Final = (
    "broker policyMap policyEntry sharedDeadLetterStrategy individualDeadLetterStrategy discarding redeliveryPlugin "
    "redeliveryPolicyMap redeliveryPolicy discardingDLQBrokerPlugin connectionFactory prefetchPolicy"
)
"""Elements of Classic whose attributes and properties are checked."""

HEAD: Final = '''\
"""Names that configuration files of ActiveMQ Classic and Artemis may have, by version.

Written by ``deploy/broker_names.py`` from the XML schemas of the brokers, of one patch of each minor version. Not to
be edited.
"""

VERSIONS = {versions}
"""The minor versions whose schemas were read, in their order."""

NAMES: dict[str, dict[str, dict[str, str]]] = {{
{names}}}
"""By broker and element: the names by the versions that know them, such as ``2.18-2.20`` or ``2.43-``; empty: all."""
'''


def schema(jar: Path, broker: str) -> Any:  # noqa: ANN401 - an element of ElementTree
    """Return the root of the schema in a jar."""
    with zipfile.ZipFile(jar) as archive:
        return fromstring(archive.read(SCHEMAS[broker]))


def classic(root: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    """Yield each name in a schema of Classic, with the element that it belongs to."""
    elements = {each.get("name"): each for each in root.findall(f"{XS}element")}
    for name in elements:
        yield "elements", name
    for bean in set(BEANS.split()) & elements.keys():
        kind = elements[bean].find(f"{XS}complexType")
        for attribute in kind.findall(f"{XS}attribute"):
            yield bean, attribute.get("name")
        for child in _children(kind):
            if child.get("name"):
                yield f"{bean} children", child.get("name")
            if bean == "broker" and child.get("name") == "plugins":
                for plugin in child.iter(f"{XS}element"):
                    if plugin.get("ref"):
                        yield "plugins", plugin.get("ref").partition(":")[2]


def artemis(root: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    """Yield each name in a schema of Artemis, with the element that it belongs to."""
    types = {each.get("name"): each for each in root.findall(f"{XS}complexType")}
    for name in ("core", "address-setting", "wildcard-addresses"):
        found = [each for each in root.iter(f"{XS}element") if name in {each.get("name"), each.get("ref")}]
        for element in found:
            kind = types.get(element.get("type")) if element.get("type") else element.find(f"{XS}complexType")
            for child in () if kind is None else _children(kind):
                yield name, child.get("name") or child.get("ref")


def _children(kind: Any) -> Iterator[Any]:  # noqa: ANN401
    """Yield the elements of a type, without those inside of them."""
    for child in kind:
        if child.tag == f"{XS}element":
            yield child
        elif child.tag in {f"{XS}{each}" for each in ("choice", "sequence", "all")}:
            yield from _children(child)


def ranges(found: Iterable[str], versions: list[str]) -> str:
    """Return which versions have a name, as in the table."""
    runs: list[list[int]] = []
    for index in sorted(map(versions.index, found)):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    last = len(versions) - 1

    def text(first: int, end: int) -> str:
        if first == end < last:
            return versions[first]
        return f"{versions[first] if first else ''}-{versions[end] if end < last else ''}"

    texts = [text(*run) for run in runs]
    return "" if texts == ["-"] else " ".join(texts)


def _literal(words: list[str], indent: int) -> str:
    text = " ".join(words)
    if len(text) <= _ONE_LINE:
        return f'"{text}"'
    lines = textwrap.wrap(text, 118 - indent, break_long_words=False, break_on_hyphens=False)
    return '"""\n' + textwrap.indent("\n".join([*lines, '"""']), " " * indent)


def main() -> int:
    """Fetch the jars and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    context = MavenContext(repo_cache=folder, local_repos=[])
    versions: dict[str, list[str]] = {broker: [] for broker in PUBLISHED}
    text = ""
    for broker, projects in PUBLISHED.items():
        known: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for project, patches in projects.items():
            for patch in patches.split():
                version = patch.rpartition(".")[0]
                versions[broker].append(version)
                group, _, artifact = project.partition(":")
                jar = context.project(group, artifact).at_version(patch).artifact().resolve()
                for each in (classic if broker == "activemq" else artemis)(schema(jar, broker)):
                    known[each].add(version)
        for each, more in LATER.items() if broker == "activemq" else ():
            known[each].update(more)
        text += f'    "{broker}": {{\n'
        grouped: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for (element, name), found in sorted(known.items()):
            grouped[element][ranges(found, versions[broker])].append(name)
        for element, by_range in grouped.items():
            text += f'        "{element}": {{\n'
            for having, listed in sorted(by_range.items()):
                text += f'            "{having}": {_literal(listed, 16)},\n'
            text += "        },\n"
        text += "    },\n"
    lists = "".join(f'    "{broker}": {_literal(each, 8)},\n' for broker, each in versions.items())
    Path(names.__file__).write_text(HEAD.format(versions=f"{{\n{lists}}}", names=text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
