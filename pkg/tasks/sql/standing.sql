select s.settled_at is null and not exists (
  select 1 from inbox i where i.source = s.source and i.event_key = s.task_id
)
from submitted_tasks s where s.id = $1
