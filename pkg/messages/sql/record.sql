-- Records events, and returns those that were not recorded before.
-- $1 inbox ids, $2 sources, $3 message ids, $4 types, $5 recipients, $6 occurred at.
insert into message_events (inbox_id, source, message_id, type, recipient, occurred_at)
select inbox_id, source, message_id, type, recipient, occurred_at
from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
  as t(inbox_id, source, message_id, type, recipient, occurred_at)
on conflict (inbox_id) do nothing
returning inbox_id
