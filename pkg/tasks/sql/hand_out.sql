-- Overdue tasks whose turn it is, the longest due first, each put off so that
-- it is not handed out again before its poll has had time to happen.
-- $1 source, $2 after, $3 most rows, $4 most that are handed out at a time,
-- $5 until they are handed out again.
with due as (
  (
    select id, created_at as since from submitted_tasks t
    where source = $1 and settled_at is null and task_id is not null and next_poll_at is null
      and created_at < now() - $2::interval
      and not exists (select from inbox i where i.source = t.source and i.event_key = t.task_id)
      and not exists (select from messages m where m.source = t.source and m.message_id = t.task_id and m.final)
    order by created_at
    limit $3
  )
  union all
  (
    select id, next_poll_at as since from submitted_tasks t
    where source = $1 and settled_at is null and task_id is not null and next_poll_at <= now()
      and not exists (select from inbox i where i.source = t.source and i.event_key = t.task_id)
      and not exists (select from messages m where m.source = t.source and m.message_id = t.task_id and m.final)
    order by next_poll_at
    limit $3
  )
  order by since
  limit greatest(0, least($3, $4 - (
    select count(*) from submitted_tasks where source = $1 and handed_out_at is not null and next_poll_at > now()
  )))
),
mine as materialized (
  select s.id from submitted_tasks s join due on due.id = s.id
  where s.settled_at is null
    and (s.next_poll_at is null or s.next_poll_at <= now()) -- still, now that it is locked
    and not exists (select from poll_limits l where l.source = $1 and l.paused_until > now())
  for update of s skip locked
)
update submitted_tasks s set handed_out_at = now(), next_poll_at = now() + $5::interval from mine where s.id = mine.id
returning s.id, s.task_id
