"""Landed orders written to two Delta tables by one function: those with an amount, and those without."""

from examples.scene import FOLDER, ORDER, orders_as_files, session

HERE = FOLDER / "several_sinks"
spark = session()
orders_as_files(HERE / "landing")


def write(batch, batch_id):
    batch.where("amount > 0").write.format("delta").mode("append").save(f"{HERE}/good")
    batch.where("amount = 0").write.format("delta").mode("append").save(f"{HERE}/rejected")


writer = (
    spark.readStream.schema(ORDER)
    .json(f"{HERE}/landing")
    .writeStream.foreachBatch(write)
    .option("checkpointLocation", f"{HERE}/checkpoint")
    .trigger(availableNow=True)
)
query = writer.start()
query.awaitTermination()

counts = [spark.read.format("delta").load(f"{HERE}/{name}").count() for name in ("good", "rejected")]
print(f"several_sinks: {counts[0]} orders in {HERE}/good, {counts[1]} in {HERE}/rejected")
