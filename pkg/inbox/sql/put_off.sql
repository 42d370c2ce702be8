-- $1 ids, $2 what each waits for, $3 shortest wait until the next look, $4 longest.
update inbox i
set state = 'waiting',
    next_attempt_at = now() + least(greatest(now() - i.received_at, $3::interval), $4::interval),
    last_error = w.reason
from unnest($1::bigint[], $2::text[]) as w(id, reason)
where i.id = w.id
