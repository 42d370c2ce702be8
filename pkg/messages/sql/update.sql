-- Writes messages that are locked. $1 sources, $2 message ids, $3 statuses,
-- $4 ranks, $5 status at, $6 final, $7 opened, $8 first opened at, $9 clicked,
-- $10 first clicked at.
update messages m
set status = t.status, rank = t.rank, status_at = t.status_at, final = t.final, opened = t.opened,
    first_opened_at = t.first_opened_at, clicked = t.clicked, first_clicked_at = t.first_clicked_at
from unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::timestamptz[], $6::boolean[], $7::integer[],
            $8::timestamptz[], $9::integer[], $10::timestamptz[])
  as t(source, message_id, status, rank, status_at, final, opened, first_opened_at, clicked, first_clicked_at)
where m.source = t.source and m.message_id = t.message_id
