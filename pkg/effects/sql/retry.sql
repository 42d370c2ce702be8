-- Makes effects that were given up due again, with all their attempts before
-- them, and those that wait for their next attempt due now, with what they have
-- left. $1 ids or null, $2 source or null, $3 name or null. Returns which were
-- given up. One that is being performed, or is due already, stays as it is.
with chosen as (
  select id, state = 'given_up' as given_up from effects
  where state <> 'performed' -- which the index serves
    and (state = 'given_up' or claimed_at is null and next_attempt_at > now())
    and ($1::bigint[] is null or id = any($1))
    and ($2::text is null or source = $2)
    and ($3::text is null or name = $3)
  for update
)
update effects e
set state = 'pending', next_attempt_at = now(),
    attempts = case when chosen.given_up then 0 else e.attempts end,
    last_error = case when chosen.given_up then null else e.last_error end
from chosen
where e.id = chosen.id
returning e.id, chosen.given_up
