-- Makes the waiting events due whose message is registered. The registration's
-- trigger has done so for those that it could see: not for one that a processor
-- was just then marking as waiting.
with due as materialized (
  select i.id
  from inbox i join messages m on m.source = i.source and m.message_id = i.subject
  where i.state = 'waiting' and i.next_attempt_at > now()
  for update of i skip locked
)
update inbox i set next_attempt_at = now() from due where i.id = due.id
