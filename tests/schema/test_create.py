"""CREATE TABLE by real servers: the catalogue's definition is information_schema's."""

import pytest

from tests.cases import each_case
from tests.schema.differ import Differ

BOTH = r"""
a INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, b VARCHAR(10) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT 'x\'y', c ENUM('a','b''c','d\ne','trail  ')
a CHAR BYTE, b NATIONAL CHAR(3), c NCHAR VARYING(4), d LONG VARCHAR, e LONG, f CHARACTER VARYING(5), g NATIONAL VARCHAR(3), h NVARCHAR(5), i NCHAR, j LONG VARBINARY, k NCHAR VARCHAR(5), l NATIONAL CHARACTER VARYING(4)
a INT4, b INT8 UNSIGNED ZEROFILL, c MIDDLEINT, d DEC(4,2), e FIXED(3), f DOUBLE PRECISION, g FLOAT4, h FLOAT(30), i REAL UNSIGNED, j INT1, k INT2, l INT3, m FLOAT(10,2), n DOUBLE(10,3), o NUMERIC, p FLOAT8, q INT(5) ZEROFILL, r FLOAT(24), s INTEGER SIGNED
a SERIAL, b BOOL, c BOOLEAN NOT NULL, d BIT(3), e YEAR(4), f BIT, g YEAR
a INT SERIAL DEFAULT VALUE, b TIMESTAMP NULL, c TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), d DATETIME(6), e TIME(0), f DATE DEFAULT '2024-01-01', g DATETIME DEFAULT NOW()
a INT, b INT AS (a+1) STORED, c VARCHAR(20) GENERATED ALWAYS AS (concat(a,')')) VIRTUAL UNIQUE, d INT INVISIBLE
a GEOMETRY NOT NULL, b GEOMETRYCOLLECTION, c MULTIPOINT, d POINT, e LINESTRING, f POLYGON, g MULTILINESTRING, h MULTIPOLYGON
a TEXT(1000), b BLOB(70000), c VARBINARY(3), d TEXT CHARACTER SET utf8mb4, e TEXT ASCII, f TEXT UNICODE, g VARCHAR(3) BINARY, h TEXT(10), i TEXT(300) CHARSET latin1, j BLOB(3), k TEXT(70000), l TEXT BYTE, m VARCHAR(3) ASCII BINARY, n CHAR(4) BINARY ASCII, o TEXT(0), p TEXT BINARY
a TINYTEXT, b MEDIUMTEXT COLLATE utf8mb4_bin, c LONGTEXT CHARSET binary, d CHAR(3) CHARACTER SET binary, e VARCHAR(4) CHARSET 'latin1', f CHAR(3) CHAR SET `latin2`, g ENUM('a') CHARSET binary, h SET('x','y') COLLATE latin1_general_cs, i TINYBLOB, j MEDIUMBLOB, k LONGBLOB, l BINARY, m BINARY(4), n VARCHAR(0), o CHAR(0)
id int, b varchar(5), c int, PRIMARY KEY (id, b(3)) USING BTREE, KEY k (c DESC), UNIQUE (c), INDEX x USING BTREE (b), CONSTRAINT u UNIQUE KEY v (b), FULLTEXT KEY (b)
id INT PRIMARY KEY COMMENT 'the, (id', `select` INT, `a``b` INT, abc INT
id INT KEY, name VARCHAR(10), CONSTRAINT CHECK (id > 0), CHECK (length(name) < 10), CONSTRAINT z CHECK (id < 5)
id INT, p INT, PRIMARY KEY (p,id), CONSTRAINT FOREIGN KEY f (p) REFERENCES base (id) MATCH FULL ON DELETE RESTRICT ON UPDATE NO ACTION
id INT, p INT REFERENCES base(id) ON DELETE CASCADE, j JSON NOT NULL
first INT, after INT, comment INT, charset VARCHAR(2), date DATE, time TIME, type INT, value INT, text TEXT, at INT, begin INT, geometry POINT, ascii CHAR(2), unicode CHAR(3)
enum ENUM('x'), visible INT
end INT, byte INT, serial INT, bool INT, json INT, boolean INT, status INT, engine INT, ends INT, signed INT, uuid INT
a INT DEFAULT (1+2), b VARCHAR(40) DEFAULT (uuid()), c DATETIME DEFAULT CURRENT_TIMESTAMP, d INT DEFAULT -5, e DOUBLE DEFAULT +1.5e3, f BIT(4) DEFAULT b'101', g BINARY(2) DEFAULT x'4142', h VARCHAR(3) DEFAULT _latin1'abc', i VARCHAR(3) DEFAULT _latin1 X'41', j INT DEFAULT NULL, k BOOL DEFAULT TRUE, l VARCHAR(5) DEFAULT N'x', m INT DEFAULT 0x10
é INT, `naïve` VARCHAR(3), _x INT, $y INT, 1st INT, 日本 ENUM('日本','é')
a INT COMMENT 'c' NOT NULL UNIQUE KEY, b INT NOT NULL KEY
a ENUM(0x6162,'z') CHARSET latin1, b SET(x'61',B'1100010','q'), c ENUM(0x61,0x65e5) CHARSET ucs2, d ENUM(0x6120,0xe9) CHARSET latin1, e SET(0x82a0) CHARSET sjis, f ENUM(0x61) CHARSET utf32, g ENUM(0x6120,'z') CHARSET binary, h ENUM(b'',0x612)
a DECIMAL(9.5), b NUMERIC(8.), c DEC(7.0), d FIXED(.5), e DECIMAL(0), f DECIMAL(0,0), g VARCHAR(9.5), h CHAR(4.2), i INT(3.5), j BINARY(2.9), k BIT(3.3), l TEXT(9.5), m BLOB(300.7), n VARCHAR(009), o YEAR(4.0)
a LONG CHARACTER SET latin1, b LONG CHARSET latin1, c LONG BINARY, d LONG ASCII, e LONG CHAR VARYING
a INT AUTO_INCREMENT UNIQUE, b INT NOT NULL NULL, c INT NULL NOT NULL
a VARCHAR(3) DEFAULT 'a' COLLATE utf8mb4_bin, b INT CONSTRAINT d CHECK (b > 0)
"""

MYSQL = r"""
a INT COLUMN_FORMAT DYNAMIC STORAGE MEMORY, c POINT SRID 4326 NOT NULL
a INT /*!80023 INVISIBLE */, b INT /*!50600 NOT NULL */ COMMENT '/*!'
a VECTOR(3), b VECTOR, c JSON DEFAULT (json_object()), d POINT SRID 4326 NOT NULL, e GEOMCOLLECTION
a INT PRIMARY KEY, b JSON, KEY ((a + 1)), KEY m ((CAST(b->'$.y' AS UNSIGNED ARRAY))), c INT CHECK (c > 0) NOT ENFORCED, e INT VISIBLE
a INT /* plain comment */ -- to the end
a INT /* plain */, b INT # comment
vector INT, period INT
"""

MARIADB = r"""
a UUID, b INET6, c INET4, d JSON CHECK (json_valid(d)), e VARCHAR(100) COMPRESSED, f TEXT COMPRESSED=zlib, g BLOB COMPRESSED
a VECTOR(3) NOT NULL, VECTOR INDEX (a) DISTANCE=cosine, b TEXT, UNIQUE (b), UNIQUE u (b(10)) USING BTREE
a INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END INVISIBLE, PERIOD FOR SYSTEM_TIME(s,e)) WITH SYSTEM VERSIONING --
a INT, b INT WITHOUT SYSTEM VERSIONING) WITH SYSTEM VERSIONING --
a INT, b INT WITH SYSTEM VERSIONING
a INT, s DATE, e DATE, PERIOD FOR app(s,e), UNIQUE(a, app WITHOUT OVERLAPS)
a INT DEFAULT (NEXT VALUE FOR sq), b VARCHAR(40) DEFAULT uuid(), c INT DEFAULT CASE WHEN 1 THEN 2 ELSE 3 END, d TEXT DEFAULT 'x', f INT AS (a) PERSISTENT
a VARCHAR(3) CHARSET utf8mb4 COLLATE uca1400_ai_ci, b VARCHAR(3) COLLATE uca1400_as_cs, c LONGTEXT CHARSET utf8mb3, d CHAR(3) COLLATE uca1400_german2_as_ci
a INT /*M!100000 NOT NULL */, b INT /*!100000 NOT NULL */, c INT /*!80023 INVISIBLE */
a VARCHAR2(5), b NUMBER(5), f POINT REF_SYSTEM_ID=4326
system INT, period INT
t.a INT, ddl_create.t.b INT NOT NULL, .c INT, t.index INT, `t` . `e` INT, t.1st INT, t.2 INT, PRIMARY KEY (b)
a DATE DEFAULT {d'2020-01-01'}, b TIME DEFAULT {t '10:00:00'} NOT NULL, c INT
a INET6(6), b INET4, c maxdb_schema.TIMESTAMP(3), d mariadb_schema.TIMESTAMP NULL
a BIT(0), b INT DEFAULT 1+2*3, c VARCHAR(9) DEFAULT concat('a',"b")
"""

OPTIONS = (
    "",
    "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci",
    "COMMENT='SELECT' CHARACTER SET latin1 ROW_FORMAT=DYNAMIC",
    "COLLATE latin1_bin",
    "CHARSET DEFAULT",
    "DEFAULT CHARACTER SET = utf8",
    "CHARSET binary",
    "CHARSET=ucs2",
    "PARTITION BY KEY () PARTITIONS 2",
)


def bodies(server):
    own = MYSQL if server.flavour == "mysql" else MARIADB
    return [line for line in (BOTH + own).split("\n") if line]


@pytest.fixture(scope="module")
def differ(flavour_server):
    differ = Differ(flavour_server, database="ddl_create")
    assert differ.run(
        "CREATE TABLE base (id INT PRIMARY KEY, v VARCHAR(10) CHARSET latin1, x BLOB)"
    )
    differ.run("CREATE SEQUENCE sq")
    yield differ
    differ.close()


def test_create_table(differ):
    taken = 0
    for body in bodies(differ.server):
        for options in OPTIONS:
            assert differ.run("DROP TABLE IF EXISTS t")
            closed = f"{body[:-2]} {options}" if body.endswith("--") else f"{body}\n) {options}"
            if not differ.run(f"CREATE TABLE t ({closed}"):
                continue
            taken += 1
            differ.check("t", closed)
    assert taken > 7 * len(bodies(differ.server))  # every body, with most of the options


MODES = {
    "ANSI_QUOTES": [
        'CREATE TABLE t ("a b" INT, c VARCHAR(3) DEFAULT \'"\')',
        "CREATE TABLE t (a REAL)",
    ],
    "NO_BACKSLASH_ESCAPES": [r"CREATE TABLE t (a ENUM('x\','y'), b INT COMMENT '\')"],
    "NO_ENGINE_SUBSTITUTION": [
        "CREATE TABLE t (a VARCHAR(70000), b VARBINARY(70000), c VARCHAR(70000000))",
        "CREATE TABLE t (a VARCHAR(65532) CHARSET latin1)",
        "CREATE TABLE t (a VARBINARY(65533))",
        "CREATE TABLE t (a VARCHAR(21846) CHARSET utf8mb3)",
    ],
    "REAL_AS_FLOAT": ["CREATE TABLE t (a REAL, b REAL(5,2))"],
}


@each_case("mode", MODES)
def test_sql_mode(differ, mode):
    differ.run(f"SET sql_mode='{mode}'")
    try:
        for sql in MODES[mode]:
            differ.run("DROP TABLE IF EXISTS t")
            if differ.run(sql):
                differ.check("t", sql)
            else:  # a longer row than MySQL takes
                assert "(655" in sql
    finally:
        differ.run("SET sql_mode=DEFAULT")


def test_names_of_digits(differ):
    for name in ("2024_orders", "2024", "1e5", "1e5x", "0x41", "x41"):
        assert differ.run(f"CREATE TABLE ddl_create.{name} (a INT)")
        differ.check(name, name)


def test_oracle_mode(mariadb118):
    differ = Differ(mariadb118, database="ddl_oracle")
    differ.run("SET sql_mode='ORACLE'")
    sql = "CREATE TABLE t (a DATE, b NUMBER, c NUMBER(5), d VARCHAR2(5 CHAR), e CLOB, f RAW(4))"
    sql = sql.replace("(5 CHAR)", "(5)")
    assert differ.run(sql)
    assert differ.run("CREATE TABLE u (a mariadb_schema.date)")
    differ.check("t", "")
    differ.check("u", "")
    differ.close()


def test_database_defaults(differ):
    differ.run("CREATE DATABASE ddl_other CHARACTER SET latin1 COLLATE latin1_german1_ci")
    differ.run("CREATE TABLE ddl_other.t (a VARCHAR(3), b TEXT CHARSET utf8mb4)")
    differ.check("t", "", "ddl_other")
    assert differ.run("ALTER DATABASE ddl_other COLLATE utf8mb4_bin")
    differ.run("CREATE TABLE ddl_other.u (a VARCHAR(3))")
    differ.check("u", "", "ddl_other")
    assert differ.run("CREATE TABLE ddl_other.v LIKE ddl_other.t")
    differ.check("v", "", "ddl_other")
    assert differ.run("RENAME TABLE ddl_other.v TO v2, ddl_other.u TO ddl_other.v")
    differ.check("v2", "")
    differ.check("v", "", "ddl_other")
    assert differ.run("DROP DATABASE ddl_other")
    assert differ.actual("v", "ddl_other") is None


def test_like_and_if_not_exists(differ):
    differ.run("DROP TABLE IF EXISTS t, u")
    assert differ.run("CREATE TABLE t (a INT PRIMARY KEY, b ENUM('x') CHARSET latin1)")
    assert differ.run("CREATE TABLE u (LIKE t)")
    differ.check("u", "")
    assert differ.run("CREATE TABLE IF NOT EXISTS u (other INT)")
    differ.check("u", "")
    assert differ.run("CREATE TEMPORARY TABLE u (temporary INT)")
    assert differ.run("DROP TEMPORARY TABLE u")
    differ.check("u", "")


def test_sequences(mariadb118):
    differ = Differ(mariadb118, database="ddl_sequence")
    for sql in ("CREATE SEQUENCE s", "CREATE OR REPLACE SEQUENCE u AS SMALLINT UNSIGNED CACHE 5"):
        assert differ.run(sql)
    for name in ("s", "u"):
        assert differ.actual(name) == differ.expected(name)
    differ.close()
