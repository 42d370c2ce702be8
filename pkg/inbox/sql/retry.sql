-- Not those that were refused at their receipt, on which no attempt was made.
update inbox set state = 'pending', attempts = 0, next_attempt_at = now(), last_error = null
where id = any($1::bigint[]) and state = 'quarantined' and attempts > 0
returning id
