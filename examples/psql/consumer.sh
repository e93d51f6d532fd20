#!/usr/bin/env bash
# Billing: adds up what each customer owes, each order once, however often its event arrives.
# PGHOST, PGDATABASE, PGUSER and so on name the database, KAFKA the brokers. SIGTERM ends it in order.
# Of several that run, one does the work and the others find it done.
set -euo pipefail
export LC_ALL=C # records are bytes

topic=${TOPIC:-outbox.event.order}
consumer=${CONSUMER:-billing}
stopping=
trap 'stopping=yes' TERM INT

partitions=$(kcat -L -J -b "$KAFKA" -t "$topic" | jq '.topics[0].partitions | length')
((partitions > 0)) || { echo "there is no topic $topic yet" >&2 && exit 1; }

# Where to continue, of each partition: "2 4711" a line.
stored_offsets() {
    psql --no-psqlrc --quiet --tuples-only --no-align --field-separator ' ' \
        --set consumer="$consumer" --set topic="$topic" --set partitions="$partitions" <<'SQL'
select partition, coalesce(next_offset::text, 'beginning')
from generate_series(0, :partitions - 1) as partition
left join outbox.stored_offsets(:'consumer') on topic = :'topic' and kafka_partition = partition;
SQL
}

while [ -z "$stopping" ]; do
    while read -r partition offset; do
        # At most 500 records, or what there is; all of them or, when kcat fails, none. An offset that the topic does not
        # have is an error, not a new beginning.
        records=$(kcat -C -q -e -c 500 -J -X auto.offset.reset=error -b "$KAFKA" -t "$topic" -p "$partition" -o "$offset")
        [ -n "$records" ] || continue
        psql --no-psqlrc --quiet --set consumer="$consumer" --set topic="$topic" --set partition="$partition" \
            --file batch.sql <<<"$records"
    done < <(stored_offsets)
    sleep 0.2 & wait $! || true # a signal ends the wait
done
