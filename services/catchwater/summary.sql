-- $1 the sources there are: nobody waits for the tasks of one that was taken out.
select
  (select count(*) from inbox where state = 'processed'),
  (select count(*) from inbox where state = 'pending'),
  (select count(*) from inbox where state = 'waiting'),
  (select count(*) from inbox where state = 'quarantined'),
  (select coalesce(now() - min(received_at), interval '0') from inbox where state = 'pending'),
  (select count(*) from answers where status = 'COMPLETED'),
  (select count(*) from answers where status = 'FAILED'),
  (select count(*) from answers where stored_at > now() - interval '1 minute'),
  (select count(*) from inbox where origin = 'delivery'),
  (select count(*) from inbox where origin = 'reconcile'),
  (select count(*) from effects where state = 'pending'),
  (select count(*) from effects where state = 'given_up'),
  (select count(*) from submitted_tasks where settled_at is null and source = any($1)),
  (select count(*) from submitted_tasks where settled_at is null and source = any($1) and next_poll_at is not null),
  (select count(*) from submitted_tasks where settled_at is null and source = any($1) and needs_investigation_at is not null)
