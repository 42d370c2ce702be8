-- Takes a hand-out, once: the task still waits for its result, or the message
-- for a final status, and the source is not paused. Should its poll not happen,
-- it is handed out again in its time.
update submitted_tasks s set handed_out_at = null
where id = $1 and settled_at is null and handed_out_at is not null and next_poll_at > now()
  and not exists (select from inbox i where i.source = s.source and i.event_key = s.task_id)
  and not exists (select from messages m where m.source = s.source and m.message_id = s.task_id and m.final)
  and not exists (select from poll_limits l where l.source = s.source and l.paused_until > now())
