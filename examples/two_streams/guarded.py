"""Two streams in one notebook: landed orders into a table, and that table's large orders into a second one."""

import surestart
from examples.scene import FOLDER, ORDER, orders_as_files, session

HERE = FOLDER / "two_streams"
spark = session()
orders_as_files(HERE / "landing")
spark.sql(f"CREATE TABLE IF NOT EXISTS delta.`{HERE}/bronze` ({ORDER}) USING delta")

landed = (
    spark.readStream.schema(ORDER)
    .json(f"{HERE}/landing")
    .writeStream.format("delta")
    .option("checkpointLocation", f"{HERE}/checkpoints/bronze")
)
large = (
    spark.readStream.format("delta")
    .load(f"{HERE}/bronze")
    .where("amount > 3")
    .writeStream.format("delta")
    .option("checkpointLocation", f"{HERE}/checkpoints/silver")
)
bronze = surestart.start(landed, "bronze", f"{HERE}/bronze")
silver = surestart.start(large, "silver", f"{HERE}/silver")
for query in (bronze, silver):
    query.processAllAvailable()
for query in (bronze, silver):
    query.stop()

counts = [spark.read.format("delta").load(f"{HERE}/{name}").count() for name in ("bronze", "silver")]
print(f"two_streams: {counts[0]} orders in {HERE}/bronze, {counts[1]} of them are large, in {HERE}/silver")
