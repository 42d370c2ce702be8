-- Notes suppressions, each with the first event, by the provider's time, that
-- caused it. $1 sources, $2 recipients, $3 reasons, $4 categories, $5 occurred
-- at, $6 event keys, $7 inbox ids; each suppression once.
-- Sorted, so that two batches with some in common wait instead of deadlocking.
insert into suppressions as s (source, recipient, reason, category, occurred_at, event_key, inbox_id)
select source, recipient, reason, category, occurred_at, event_key, inbox_id
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::bigint[])
  as t(source, recipient, reason, category, occurred_at, event_key, inbox_id)
order by source, recipient, reason, category
on conflict (source, recipient, reason, category) do update
set occurred_at = excluded.occurred_at, event_key = excluded.event_key, inbox_id = excluded.inbox_id
where (excluded.occurred_at, excluded.event_key collate "C") < (s.occurred_at, s.event_key collate "C")
