-- Makes effects that were given up due again. $1 ids or null, $2 source or null,
-- $3 name or null.
update effects
set state = 'pending', attempts = 0, next_attempt_at = now(), last_error = null
where state = 'given_up'
  and ($1::bigint[] is null or id = any($1))
  and ($2::text is null or source = $2)
  and ($3::text is null or name = $3)
returning id
