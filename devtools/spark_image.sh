#!/bin/bash
# Starts a part of Spark in the image of the Dockerfile's target `spark`.
#   executor           an executor on Kubernetes, with the variables that Spark gives it (as in Spark's own entrypoint.sh)
#   driver …           spark-submit in client mode with these arguments: the driver of Kubernetes' cluster mode
#   master …           the master of a standalone cluster, on port 7077; with its options
#   worker URL …       a worker of the standalone cluster at this URL
#   anything else      that command
set -euo pipefail

case "${1:-}" in
executor)
  mapfile -t options < <(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n | sed 's/^[^=]*=//')
  exec "$JAVA_HOME/bin/java" "${options[@]}" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
  ;;
driver)
  shift
  exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
    --deploy-mode client "$@"
  ;;
master) exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master "${@:2}" ;;
worker) exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker "${@:2}" ;;
*) exec "$@" ;;
esac
