update submitted_tasks set next_poll_at = $2 where id = $1
