-- What has become of rows that a claim did not return.
select id, (state in ('pending', 'waiting') and (state = 'pending' and attempts = 0 or next_attempt_at <= now())) as claimable
from inbox where id = any($1::bigint[])
