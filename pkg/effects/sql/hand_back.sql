-- Gives claims back that nothing was done under. $1 ids, $2 attempts.
update effects e
set attempts = e.attempts - 1, claimed_at = null, next_attempt_at = now()
from unnest($1::bigint[], $2::integer[]) as c(id, attempts)
where e.id = c.id and e.state = 'pending' and e.attempts = c.attempts
