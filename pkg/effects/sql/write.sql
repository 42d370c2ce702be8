-- Writes down what is to be performed. $1 sources, $2 event keys, $3 names,
-- $4 inbox ids, $5 received at, $6 changes, $7 traceparents. An event is
-- processed once, so there is nothing to conflict with; if there were, what is
-- there has happened or will.
insert into effects (source, event_key, name, inbox_id, received_at, change, traceparent)
select source, event_key, name, inbox_id, received_at, change::jsonb, traceparent
from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::timestamptz[], $6::text[], $7::text[])
  as t(source, event_key, name, inbox_id, received_at, change, traceparent)
order by source, event_key, name
on conflict (source, event_key, name) do nothing
