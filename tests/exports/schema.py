"""The parts of the schemas of ALTO 4.4 and PAGE 2019-07-15 that our exports use."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree import ElementTree as ET

NUMBER = r"-?\d+(\.\d+)?(e-\d+)?"
SHARE = r"0(\.\d+)?(e-\d+)?|0\.\d+|1(\.0)?|\d(\.\d+)?e-\d+"
NAME = r"[A-Za-z_][\w.-]*"
POINTS = r"(\d+,\d+ )+\d+,\d+"
ANY = r"(?s).*"
POSITION = dict.fromkeys(("HPOS", "VPOS", "WIDTH", "HEIGHT"), NUMBER)


@dataclass(frozen=True, slots=True)
class Rule:
    """What an element holds: children as a pattern of their names, attributes with theirs."""

    children: str = ""
    required: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)


_SCHEMA_LOCATION = {"{http://www.w3.org/2001/XMLSchema-instance}schemaLocation": ANY}

ALTO = {
    "alto": Rule("Description Layout", {"SCHEMAVERSION": r"4\.\d"}, _SCHEMA_LOCATION),
    "Description": Rule("MeasurementUnit sourceImageInformation Processing"),
    "MeasurementUnit": Rule(),
    "sourceImageInformation": Rule("fileName"),
    "fileName": Rule(),
    "Processing": Rule(
        "processingCategory processingStepDescription processingSoftware", {"ID": NAME}
    ),
    "processingCategory": Rule(),
    "processingStepDescription": Rule(),
    "processingSoftware": Rule("softwareCreator softwareName softwareVersion"),
    "softwareCreator": Rule(),
    "softwareName": Rule(),
    "softwareVersion": Rule(),
    "Layout": Rule("Page( Page)*"),
    "Page": Rule(
        "(PrintSpace)?",
        {"ID": NAME, "PHYSICAL_IMG_NR": NUMBER},
        {
            "WIDTH": NUMBER,
            "HEIGHT": NUMBER,
            "PROCESSINGREFS": NAME,
            "PC": SHARE,
            "QUALITY": "Damaged",
            "QUALITY_DETAIL": ANY,
            "LANG": r"[a-zA-Z]{1,8}(-[a-zA-Z0-9]{1,8})*",
        },
    ),
    "PrintSpace": Rule("(TextBlock ?)*", POSITION),
    "TextBlock": Rule("TextLine( TextLine)*", {"ID": NAME, **POSITION}),
    "TextLine": Rule(
        "(Shape )?String( SP)?( String( SP)?)*", {"ID": NAME, "BASELINE": POINTS, **POSITION}
    ),
    "String": Rule("(Shape)?", {"ID": NAME, "CONTENT": ANY, "WC": SHARE, **POSITION}),
    "SP": Rule(),
    "Shape": Rule("Polygon"),
    "Polygon": Rule("", {"POINTS": POINTS}),
}

PAGE = {
    "PcGts": Rule("Metadata Page", {}, _SCHEMA_LOCATION),
    "Metadata": Rule("Creator Created LastChange( MetadataItem)*"),
    "Creator": Rule(),
    "Created": Rule(),
    "LastChange": Rule(),
    "MetadataItem": Rule(
        "", {"type": "author|imageProperties|processingStep|other", "value": ANY}, {"name": ANY}
    ),
    "Page": Rule(
        "(ReadingOrder )?UserDefined( TextRegion)*",
        {"imageFilename": ANY, "imageWidth": r"\d+", "imageHeight": r"\d+"},
        {
            "imageXResolution": NUMBER,
            "imageYResolution": NUMBER,
            "imageResolutionUnit": "PPI|PPCM|other",
            "conf": SHARE,
        },
    ),
    "ReadingOrder": Rule("OrderedGroup"),
    "OrderedGroup": Rule("RegionRefIndexed( RegionRefIndexed)*", {"id": NAME}),
    "RegionRefIndexed": Rule("", {"index": r"\d+", "regionRef": NAME}),
    "UserDefined": Rule("UserAttribute( UserAttribute)*"),
    "UserAttribute": Rule("", {}, {"name": ANY, "type": "xsd:string", "value": ANY}),
    "TextRegion": Rule("Coords( TextLine)*( TextEquiv)?", {"id": NAME}),
    "TextLine": Rule("Coords( Baseline)?( Word)*( TextEquiv)?", {"id": NAME}),
    "Word": Rule("Coords( TextEquiv)?", {"id": NAME}),
    "Coords": Rule("", {"points": POINTS}),
    "Baseline": Rule("", {"points": POINTS}),
    "TextEquiv": Rule("Unicode", {}, {"conf": SHARE}),
    "Unicode": Rule(),
}


def violations(element: ET.Element, rules: Mapping[str, Rule], namespace: str) -> list[str]:
    """List what an element and everything in it does that its schema does not allow."""
    name = element.tag.removeprefix(namespace)
    rule = rules.get(name)
    if rule is None:
        return [f"{element.tag} is unknown"]
    children = " ".join(child.tag.removeprefix(namespace) for child in element)
    found = [] if re.fullmatch(rule.children, children) else [f"{name} holds {children!r}"]
    found += [f"{name} lacks {key}" for key in rule.required if key not in element.attrib]
    allowed = {**rule.required, **rule.optional}
    found += [
        f"{name} has {key}={value!r}"
        for key, value in element.attrib.items()
        if not re.fullmatch(allowed.get(key, "(?!)"), value)
    ]
    for child in element:
        found += violations(child, rules, namespace)
    return found
