-- Registers messages that are not yet. $1 sources, $2 message ids.
-- Sorted, so that two batches with messages in common wait instead of deadlocking.
insert into messages (source, message_id)
select source, message_id
from unnest($1::text[], $2::text[]) as t(source, message_id)
order by source, message_id
on conflict (source, message_id) do nothing
