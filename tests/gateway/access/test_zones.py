"""Where a client is, by its id, its network, or its listener: tables, and ids of strangers."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.access.zones import ZoneFault, ZoneNetwork, Zones, host_of, parse_network, zone_in
from gateway.sections.access import ZONE_CHARACTERS_MAX, is_zone

ZONES = Zones(
    [
        parse_network("10.0.0.0/8=wide"),
        parse_network("10.1.0.0/16=narrow"),
        parse_network("2001:db8::/32=six"),
        parse_network("10.1.2.3=one"),
    ],
    {"zone_c": "zone-c"},
)


@pytest.mark.parametrize(
    ("client_id", "zone"),
    [
        (None, None),
        ("", None),
        ("diskless_az=a", "a"),
        ("ws_az=a", "a"),
        ("app,diskless_az=us-east-1a", "us-east-1a"),
        ("app diskless_az=a", "a"),
        ("app|diskless_az=a|more", "a"),
        ("app,diskless_az=a,x=y", "a"),
        ("ws_az=w,diskless_az=d", "d"),
        ("diskless_az=first,diskless_az=second", "first"),
        ("diskless_az=,diskless_az=second", "second"),
        ("diskless_az=use1-az1/rack.7:b_2", "use1-az1/rack.7:b_2"),
        ("mydiskless_az=a", None),
        ("app;diskless_az=a", None),
        ("app-diskless_az=a", None),
        ("app\tdiskless_az=a", None),
        ("app\ndiskless_az=a", None),
        ("DISKLESS_AZ=a", None),
        ("diskless_az", None),
        ("diskless_az=", None),
        ("diskless_az =a", None),
        ("diskless_az= a", None),
        ("diskless_az==a", None),
        ("diskless_az=a=b", None),
        ("diskless_az=a\n", None),
        ("diskless_az=a\0b", None),
        ("diskless_az=\x1b[2J", None),
        ("diskless_az=../../etc", None),
        ("diskless_az=\N{FULLWIDTH LATIN SMALL LETTER A}", None),
        ("diskless_az=a\N{RIGHT-TO-LEFT OVERRIDE}b", None),
        ("diskless_az=\N{REPLACEMENT CHARACTER}", None),
        ("diskless_az=" + "a" * ZONE_CHARACTERS_MAX, "a" * ZONE_CHARACTERS_MAX),
        ("diskless_az=" + "a" * (ZONE_CHARACTERS_MAX + 1), None),
        ("x" * 2_000 + ",diskless_az=a", None),
    ],
)  # fmt: skip
def test_the_zone_that_a_client_id_names(client_id: str | None, zone: str | None) -> None:
    assert zone_in(client_id) == zone


@given(st.text())
def test_whatever_an_id_says_a_zone_is_a_zone(text: str) -> None:
    found = zone_in(text)
    assert found is None or is_zone(found)
    zone = zone_in("diskless_az=" + text)
    assert zone is None or (is_zone(zone) and text.startswith(zone)) or "diskless_az=" in text or "ws_az=" in text


def test_the_longest_ids_take_no_time() -> None:
    began_s = time.process_time()
    for made in ("diskless_az=" * 2_700, " " * 32_767, ",ws_az" * 5_000, "diskless_az=" + "a" * 32_000):
        for _ in range(100):
            zone_in(made)
    assert time.process_time() - began_s < 1


@pytest.mark.parametrize(
    ("client_id", "address", "listener", "zone"),
    [
        ("diskless_az=said", "10.1.2.3:5", "ZONE_C", "said"),
        ("app", "10.1.2.3:5", "ZONE_C", "one"),
        ("app", "10.1.9.9:5", "ZONE_C", "narrow"),
        ("app", "10.2.0.1:5", "ZONE_C", "wide"),
        ("diskless_az=", "::ffff:10.1.9.9:5", "PLAINTEXT", "narrow"),
        (None, "2001:db8::1:5000", "PLAINTEXT", "six"),
        (None, "192.168.0.1:5", "ZONE_C", "zone-c"),
        (None, "192.168.0.1:5", "zone_c", "zone-c"),
        (None, "192.168.0.1:5", "PLAINTEXT", None),
        (None, "", "PLAINTEXT", None),
        (None, "?", "PLAINTEXT", None),
    ],
)
def test_the_first_that_knows_the_zone_counts(client_id: str | None, address: str, listener: str, zone: str | None) -> None:
    assert ZONES.of(client_id, address, listener) == zone


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("10.1.2.3:9092", "10.1.2.3"),
        ("[2001:db8::1]:9092", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("fe80::1%eth0:9092", "fe80::1"),
        ("::1:9092", "::1"),
        ("::ffff:10.1.2.3:9092", "10.1.2.3"),
        ("localhost:9092", None),
        ("", None),
        (":", None),
        ("10.1.2.3:\N{ARABIC-INDIC DIGIT ONE}", None),
    ],
)
def test_the_host_of_a_peer(address: str, host: str | None) -> None:
    found = host_of(address)
    assert (None if found is None else str(found)) == host


@pytest.mark.parametrize(
    "entry", ["", "10.0.0.0/8", "=a", "10.0.0.0/8=", "10.0.0.0/8=a b", "10.0.0.1/8=a", "host=a", "10.0.0.0/33=a", "::/129=a"]
)
def test_an_entry_that_is_no_network_is_refused_by_name(entry: str) -> None:
    with pytest.raises(ZoneFault, match=r"NETWORK=ZONE|write a network") as caught:
        parse_network(entry)
    assert repr(entry) in str(caught.value)


def test_an_entry_may_have_blanks() -> None:
    one = parse_network(" 10.0.0.0/8 = zone-a ")
    assert one == ZoneNetwork(one.network, "zone-a")
    assert str(one.network) == "10.0.0.0/8"
