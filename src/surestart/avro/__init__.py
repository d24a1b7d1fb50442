"""Avro records, with one fixed schema or in Confluent's wire format, through Spark's own from_avro."""
