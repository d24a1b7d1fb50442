"""Orders of a Delta table, merged into one row for each customer: the newest order."""

import surestart
from examples.scene import FOLDER, orders_as_table, session

HERE = FOLDER / "delta_to_merge"
spark = session()
orders_as_table(spark, HERE / "orders")
spark.sql(
    f"CREATE TABLE IF NOT EXISTS delta.`{HERE}/customers` (customer BIGINT, id BIGINT, amount BIGINT) USING delta"
)


@surestart.once
def upsert(batch, batch_id):
    newest = batch.groupBy("customer").agg({"id": "max"}).withColumnRenamed("max(id)", "id")
    newest.join(batch, ["customer", "id"]).select("customer", "id", "amount").createOrReplaceTempView("arrived")
    batch.sparkSession.sql(
        f"MERGE INTO delta.`{HERE}/customers` t USING arrived s ON t.customer = s.customer "
        "WHEN MATCHED AND s.id > t.id THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


writer = (
    spark.readStream.format("delta")
    .load(f"{HERE}/orders")
    .writeStream.foreachBatch(upsert)
    .option("checkpointLocation", f"{HERE}/checkpoint")
    .trigger(availableNow=True)
)
query = surestart.start(writer, "customers")
query.awaitTermination()

rows = spark.read.format("delta").load(f"{HERE}/customers")
print(
    f"delta_to_merge: {rows.count()} customers in {HERE}/customers, newest order {rows.agg({'id': 'max'}).first()[0]}"
)
