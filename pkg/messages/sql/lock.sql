-- Locks the registered ones among messages, in one order for everybody, so that
-- two batches with messages in common wait instead of deadlocking.
-- $1 sources, $2 message ids, each once.
select m.source, m.message_id, m.status, m.rank, m.status_at, m.final, m.opened, m.first_opened_at, m.clicked,
       m.first_clicked_at
from unnest($1::text[], $2::text[]) as k(source, message_id)
join messages m on m.source = k.source and m.message_id = k.message_id
order by m.source, m.message_id
for no key update of m
