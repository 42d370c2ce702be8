-- $1 ids, $2 what each waits for, $3 shortest wait until the next look, $4 longest,
-- $5 whether it stays pending.
update inbox i
set state = case when w.pending then 'pending' else 'waiting' end::inbox_state,
    next_attempt_at = now() + least(greatest(now() - i.received_at, $3::interval), $4::interval),
    last_error = w.reason
from unnest($1::bigint[], $2::text[], $5::boolean[]) as w(id, reason, pending)
where i.id = w.id
