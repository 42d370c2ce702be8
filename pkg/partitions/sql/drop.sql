select partition, kept, dropped from drop_payload_partition($1, $2)
