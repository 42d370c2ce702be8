-- $1 source, $2 message ids. Sorted, so that two registrations with messages in
-- common wait instead of deadlocking.
insert into messages (source, message_id)
select $1, message_id from unnest($2::text[]) as t(message_id) order by message_id
on conflict (source, message_id) do nothing
