"""Orders of a Kafka topic, appended to a Delta table."""

import sys

from examples.scene import BOOTSTRAP, FOLDER, orders_as_records, session

HERE = FOLDER / "kafka_to_delta"
TOPIC = sys.argv[1] if len(sys.argv) > 1 else "orders"
spark = session()
orders_as_records(spark, HERE / "made", TOPIC)

records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", BOOTSTRAP)
    .option("subscribe", TOPIC)
    .option("startingOffsets", "earliest")
    .load()
)
orders = records.selectExpr("from_json(CAST(value AS STRING), 'id BIGINT, customer BIGINT, amount BIGINT') AS o")
writer = (
    orders.selectExpr("o.*")
    .writeStream.format("delta")
    .option("checkpointLocation", f"{HERE}/checkpoint")
    .trigger(availableNow=True)
)
query = writer.start(f"{HERE}/orders")
query.awaitTermination()

rows = spark.read.format("delta").load(f"{HERE}/orders")
print(f"kafka_to_delta: {rows.count()} orders in {HERE}/orders, {rows.select('id').distinct().count()} different ones")
