"""Orders joined with their payments, each from a folder of landed files; a payment comes within a minute."""

from pyspark.sql import functions as F

from examples.scene import FOLDER, ORDER, orders_as_files, session

HERE = FOLDER / "stream_stream_join"
spark = session()
orders_as_files(HERE / "orders")
orders_as_files(HERE / "payments")

orders = spark.readStream.schema(ORDER).json(f"{HERE}/orders").withWatermark("at", "1 minute")
payments = spark.readStream.schema(ORDER).json(f"{HERE}/payments").selectExpr("id AS paid", "at AS paid_at")
joined = orders.join(
    payments.withWatermark("paid_at", "1 minute"),
    on=F.expr("id = paid AND paid_at BETWEEN at AND at + INTERVAL 1 MINUTE"),
)
writer = (
    joined.select("id", "customer", "amount", "paid_at")
    .writeStream.format("delta")
    .option("checkpointLocation", f"{HERE}/checkpoint")
    .trigger(availableNow=True)
)
query = writer.start(f"{HERE}/paid")
query.awaitTermination()

rows = spark.read.format("delta").load(f"{HERE}/paid")
print(
    f"stream_stream_join: {rows.count()} paid orders in {HERE}/paid, {rows.select('id').distinct().count()} different"
)
