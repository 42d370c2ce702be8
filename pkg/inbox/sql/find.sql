-- The rows that hold these keys: who won where an insert met a conflict.
select i.id, i.source, i.event_key, i.body_hash
from unnest($1::text[], $2::text[]) as k(source, event_key)
join inbox i on i.source = k.source and i.event_key = k.event_key
