"""Orders of landed files, counted by the minute; a minute is written once no more of it can come."""

from pyspark.sql import functions as F

from examples.scene import FOLDER, ORDER, orders_as_files, session

HERE = FOLDER / "windowed_aggregation"
spark = session()
orders_as_files(HERE / "landing")

orders = spark.readStream.schema(ORDER).json(f"{HERE}/landing")
minutes = orders.withWatermark("at", "30 seconds").groupBy(F.window("at", "1 minute").alias("minute"))
counted = minutes.agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
writer = (
    counted.selectExpr("minute.start AS minute", "orders", "amount")
    .writeStream.format("delta")
    .outputMode("append")
    .option("checkpointLocation", f"{HERE}/checkpoint")
    .trigger(availableNow=True)
)
query = writer.start(f"{HERE}/minutes")
query.awaitTermination()

rows = spark.read.format("delta").load(f"{HERE}/minutes")
print(
    f"windowed_aggregation: {rows.count()} minutes in {HERE}/minutes, {rows.agg({'orders': 'sum'}).first()[0]} orders"
)
