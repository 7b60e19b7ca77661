"""GEOMETRY of all kinds, VECTOR."""

from __future__ import annotations

from tools.corpus.case import Recorder, add_with_metadata

_TEXTS = (
    "POINT(1 2)",
    "POINT(-0.5 1e300)",
    "LINESTRING(0 0,1 1,2.5 -3)",
    "POLYGON((0 0,10 0,10 10,0 10,0 0),(2 2,2 4,4 4,4 2,2 2))",
    "MULTIPOINT((1 1),(2 2))",
    "MULTILINESTRING((0 0,1 1),(2 2,3 3,4 4))",
    "MULTIPOLYGON(((0 0,1 0,1 1,0 0)),((5 5,6 5,6 6,5 5)))",
    "GEOMETRYCOLLECTION(POINT(1 1),GEOMETRYCOLLECTION(MULTIPOINT((1 1),(2 2))))",
    "GEOMETRYCOLLECTION EMPTY",
)


def geometries(recorder: Recorder) -> None:
    rows = [[f"ST_GeomFromText('{text}')"] for text in _TEXTS]
    if recorder.mysql:
        rows += [[f"ST_GeomFromText('{text}', 4326)"] for text in _TEXTS[2:4]]
        rows += [["ST_GeomFromText('POINT(48.2 16.37)', 4326)"]]
    else:
        rows += [["ST_GeomFromText('POINT(16.37 48.2)', 4326)"]]
    recorder.table("geometries", {"g": "GEOMETRY"}, rows)
    kinds = ("POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON")
    columns = {kind.lower(): kind for kind in kinds}
    columns["collection"] = "GEOMETRYCOLLECTION"
    values = [_TEXTS[place] for place in (0, 2, 3, 4, 5, 6, 7)]
    row = [f"ST_GeomFromText('{text}')" for text in values]
    if recorder.mysql:
        columns["located"] = "POINT SRID 4326"
        row.append("ST_GeomFromText('POINT(-33.86 151.2)', 4326)")
    recorder.table("shapes", columns, [row])


def vectors(recorder: Recorder) -> None:
    make = "TO_VECTOR" if recorder.mysql else "VEC_FromText"
    texts = ("[1,2,3]", "[0,-0.0,0.1]", "[3.4e38,-2e-38,1.5e-38]", "[0.333333343,16777216,-1.5]")
    rows = [[f"{make}('{text}')", f"{make}('[{number}.5]')"] for number, text in enumerate(texts)]
    recorder.table("vectors", {"v3": "VECTOR(3)", "v1": "VECTOR(1)"}, rows)
    long = "[" + ",".join(f"{number / 7:.6g}" for number in range(400)) + "]"
    recorder.table("long_vectors", {"v": "VECTOR(400)"}, [[f"{make}('{long}')"]])


add_with_metadata("geometries", "GEOMETRY of all kinds, SRIDs", geometries, insert_only=True)
add_with_metadata(
    *("vectors", "VECTOR", vectors), servers=("mysql-9.7", "mariadb-11.8"), insert_only=True
)
