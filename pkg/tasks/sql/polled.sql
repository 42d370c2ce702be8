-- $1 id, $2 result, $3 until the next poll, $4 the same past the horizon,
-- $5 horizon, $6 whether the task is settled.
update submitted_tasks
set polls = polls + 1,
    last_polled_at = now(),
    last_poll_result = $2,
    next_poll_at = now() + case when created_at < now() - $5::interval then greatest($3::interval, $4::interval) else $3::interval end,
    settled_at = case when $6 then now() else settled_at end
where id = $1
returning polls
