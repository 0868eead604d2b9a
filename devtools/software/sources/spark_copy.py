"""Copies a topic with a structured stream of Spark: spark_copy.py JARS BOOTSTRAP SOURCE SINK FOLDER."""

import sys

from pyspark.sql import SparkSession

jars, bootstrap, source, sink, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .appName("copy")
    .config("spark.jars", jars)
    .config("spark.driver.memory", "512m")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
reading = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", source)
(
    reading.option("startingOffsets", "earliest")
    .load()
    .select("key", "value")
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("topic", sink)
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(processingTime="1 second")
    .start()
    .awaitTermination()
)
