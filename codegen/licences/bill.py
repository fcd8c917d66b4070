"""Bills of materials in CycloneDX's form (JSON, version 1.6), one for each deliverable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component as BillComponent
from cyclonedx.model.component import ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.markers import Marker

from codegen.licences.components import Component
from codegen.licences.rules import Deliverable

BILLS: Final = {
    "service": (Deliverable.SERVICE,),
    "monitor": (Deliverable.SERVICE, Deliverable.MONITOR),
    "development": tuple(Deliverable),
}
"""The deliverables by the name of their bill, with the places whose software each holds."""


def bill(name: str, version: str, found: Sequence[Component]) -> str:
    """Return the bill of a deliverable: the software that this machine's Python installs for it, jars and files."""
    licences = LicenseFactory()
    root = BillComponent(
        name=f"diskless-coordinator-{name}",
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=f"diskless-coordinator-{name}",
        licenses=[licences.make_from_string("Apache-2.0")],
    )
    made = Bom()
    made.metadata.component = root
    listed = [one for one in found if one.place in BILLS[name] and (not one.marker or Marker(one.marker).evaluate())]
    entries = {_reference(one): _entry(one, licences) for one in listed}
    made.components.update(entries.values())
    packages = {one.name: entries[_reference(one)] for one in listed if one.purl.startswith("pkg:pypi/")}
    needs: dict[str, list[BillComponent]] = {}
    for one in listed:
        for parent in one.needed_by & packages.keys():
            needs.setdefault(parent, []).append(entries[_reference(one)])
    needed = {_reference(one) for one in listed if one.needed_by & packages.keys()}
    made.register_dependency(root, [entry for reference, entry in entries.items() if reference not in needed])
    for parent, children in needs.items():
        made.register_dependency(packages[parent], children)
    return JsonV1Dot6(made).output_as_string(indent=2)


def _reference(one: Component) -> str:
    return one.purl or one.name


def _entry(one: Component, licences: LicenseFactory) -> BillComponent:
    # A package has a file for each kind of machine; a jar is one file.
    is_one_file = len(one.sha256) == 1
    return BillComponent(
        name=one.name,
        version=one.version or None,
        type=ComponentType.LIBRARY,
        bom_ref=_reference(one),
        purl=PackageURL.from_string(one.purl) if one.purl else None,
        licenses=[licences.make_from_string(one.licence)],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=one.sha256[0])] if is_one_file else (),
        properties=[] if is_one_file else [Property(name="diskless:locked-sha256", value=value) for value in one.sha256],
    )
