update inbox
set state = 'pending', next_attempt_at = now(), last_error = null, event_type = $2, subject = $3, occurred_at = $4
where id = $1 and state = 'quarantined'
