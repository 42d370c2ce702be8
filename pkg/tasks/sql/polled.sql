-- $1 id, $2 result, $3 whether the task is settled, $4 longest wait until the
-- next poll, $5 longest past the horizon, $6 horizon, $7 where a back-off
-- begins, 0 for none: it doubles with each poll there has been, and loses a
-- random part of up to half.
with poll as (
  select id, polls,
    case when created_at < now() - $6::interval then $5::interval else $4::interval end as longest
  from submitted_tasks where id = $1
),
wait as (
  select id,
    case when $7::interval > interval '0'
      then least(longest, $7::interval * power(2, least(polls, 20))) * (1 - random() / 2)
      else longest
    end as wait
  from poll
)
update submitted_tasks s
set polls = s.polls + 1,
    last_polled_at = now(),
    last_poll_result = $2,
    handed_out_at = null,
    next_poll_at = case when not $3 then now() + wait.wait end,
    settled_at = case when $3 then coalesce(s.settled_at, now()) else s.settled_at end
from wait where s.id = wait.id
returning s.polls, coalesce(s.next_poll_at - now(), interval '0')
