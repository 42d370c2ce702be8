select p.body from inbox i join inbox_payload p on p.inbox_id = i.id and p.received_at = i.received_at where i.id = $1
