-- The latest answers, with the time from receipt to answer: as many as a terminal
-- of 24 lines has room for.
select a.stored_at, a.task_id, a.job_key, a.status, i.origin, a.stored_at - i.received_at
from answers a join inbox i on i.id = a.inbox_id
order by a.inbox_id desc
limit 4
