select partition, made from make_payload_partitions($1)
