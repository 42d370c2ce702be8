update submitted_tasks set last_poll_result = $2 where id = $1 and task_id is null and settled_at is null
