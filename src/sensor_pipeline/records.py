"""What a sensor says, and what each table keeps of it. Column lists are SQL DDL: reading them needs no Spark."""

from __future__ import annotations

# Where a record came from: topic, partition and offset, or file, 0 and line number. Kept from raw to gold, so that
# lost and duplicated rows can be counted and any range of them replayed.
POSITION = ("source", "partition", "offset")

RAW_COLUMNS = """
    payload BINARY,
    key BINARY,
    headers ARRAY<STRUCT<key: STRING, value: BINARY>>,
    source STRING,
    partition INT,
    offset BIGINT,
    source_time TIMESTAMP,
    ingested_at TIMESTAMP"""

READING_COLUMNS = """
    sensor_id STRING,
    room STRING,
    firmware STRING,
    reading_time TIMESTAMP,
    reading_date DATE,
    revision INT,
    temperature DOUBLE,
    humidity DOUBLE,
    battery DOUBLE,
    source STRING,
    partition INT,
    offset BIGINT,
    ingested_at TIMESTAMP,
    deserialized_at TIMESTAMP"""

# READING_COLUMNS as PostgreSQL writes them.
GOLD_IN_POSTGRES = (
    ("sensor_id", "text"),
    ("room", "text"),
    ("firmware", "text"),
    ("reading_time", "timestamptz"),
    ("reading_date", "date"),
    ("revision", "integer"),
    ("temperature", "double precision"),
    ("humidity", "double precision"),
    ("battery", "double precision"),
    ("source", "text"),
    ("partition", "integer"),
    ("offset", "bigint"),
    ("ingested_at", "timestamptz"),
    ("deserialized_at", "timestamptz"),
)

QUARANTINE_COLUMNS = """
    payload BINARY,
    reason STRING,
    source STRING,
    partition INT,
    offset BIGINT,
    ingested_at TIMESTAMP"""

# The fields of a message. reading_time stays text here: Spark's JSON reader would accept many more forms than ISO 8601.
MESSAGE = (
    "sensor_id STRING, room STRING, firmware STRING, reading_time STRING, revision INT, "
    "temperature DOUBLE, humidity DOUBLE, battery DOUBLE"
)
# Besides reading_time, whose form says that it is one.
TEXTS = ("sensor_id", "room", "firmware")
REQUIRED = ("sensor_id", "reading_time", "revision", "temperature", "humidity", "battery")
# \z and not $, which in Java stands before a line end as well.
TIME_FORM = r"^(?!0000)\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z\z"

# What a sensor in a building can measure; anything else is a broken sensor, not weather.
RANGES = {"temperature": (-60.0, 120.0), "humidity": (0.0, 100.0), "battery": (0.0, 100.0), "revision": (0, 1_000_000)}

KEYS = ("sensor_id", "reading_time")
# The sensor's own revision decides; the position breaks ties, so that the order is total and no replay changes it.
NEWEST = ("revision", *POSITION)
