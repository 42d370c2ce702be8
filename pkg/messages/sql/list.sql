select source, message_id, status, rank, status_at, final, opened, first_opened_at, clicked, first_clicked_at, registered_at
from messages
where ($1::text is null or source = $1)
  and ($2::text is null or status = $2)
  and ($3::text[] is null or message_id = any($3))
  and (not $4 or not final)
  and registered_at <= now() - $5::interval
order by registered_at, source, message_id
limit $6
