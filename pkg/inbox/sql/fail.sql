-- $1 ids, $2 errors, $3 delays until the next attempt, null to quarantine.
update inbox i
set state = case when f.delay is null then 'quarantined' else 'pending' end::inbox_state,
    attempts = i.attempts + 1,
    next_attempt_at = now() + f.delay,
    last_error = f.error
from unnest($1::bigint[], $2::text[], $3::interval[]) as f(id, error, delay)
where i.id = f.id
