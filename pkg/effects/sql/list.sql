select id, source, event_key, name, inbox_id, received_at, change, state, attempts, next_attempt_at, claimed_at, last_error,
       created_at, performed_at
from effects
where ($1::text is null or state = $1::effect_state)
  and ($1::text is null or $1 = 'performed' or state <> 'performed') -- which the partial index serves
  and ($2::text is null or source = $2)
  and ($3::text is null or name = $3)
  and ($4::bigint[] is null or id = any($4))
order by id desc
limit $5
