update inbox
set state = 'processed', attempts = attempts + 1, next_attempt_at = null, last_error = null, processed_at = now()
where id = any($1::bigint[])
