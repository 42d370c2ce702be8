update inbox set state = 'pending', attempts = 0, next_attempt_at = now(), last_error = null
where id = any($1::bigint[]) and state = 'quarantined'
returning id
