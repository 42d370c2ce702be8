select id, source, event_key, event_type, subject, occurred_at, received_at, origin, state, attempts, next_attempt_at,
       last_error, processed_at
from inbox
where ($1::text is null or state = $1::inbox_state)
  and ($1::text is null or $1 = 'processed' or state <> 'processed') -- which the partial index serves
  and ($2::text is null or source = $2)
  and ($3::bigint[] is null or id = any($3))
  and received_at <= now() - $4::interval
order by id desc
limit $5
