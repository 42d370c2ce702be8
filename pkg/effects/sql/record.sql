-- Writes down what came of calls, and returns those whose claim still was the
-- one that the call was made under. $1 ids, $2 attempts, $3 states, $4 errors,
-- $5 delays until the next attempt. What was performed was performed, whoever has
-- claimed it since.
with result as (
  select id, attempts, state, error, delay
  from unnest($1::bigint[], $2::integer[], $3::effect_state[], $4::text[], $5::interval[]) as r(id, attempts, state, error, delay)
)
update effects e
set state = r.state, claimed_at = null, next_attempt_at = now() + r.delay, last_error = r.error,
    performed_at = case when r.state = 'performed' then now() end
from result r
where e.id = r.id and e.state <> 'performed' and (r.state = 'performed' or e.state = 'pending' and e.attempts = r.attempts)
returning e.id, e.attempts = r.attempts
