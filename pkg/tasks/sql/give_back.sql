-- Gives a hand-out back: the task is due again at once.
update submitted_tasks set handed_out_at = null, next_poll_at = now()
where id = $1 and settled_at is null and handed_out_at is not null and next_poll_at > now()
