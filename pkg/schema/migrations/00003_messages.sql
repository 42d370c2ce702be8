-- +goose Up

set lock_timeout = '5s';

-- What is known of each message: the status of the highest rank that any of its
-- events gave it, whatever order they came in. A message is registered by a row
-- of its source and id alone; the rest is the processor's.
create table messages (
  source           text not null,
  message_id       text not null,
  status           text not null default 'queued',
  rank             integer not null default 0,
  status_at        timestamptz,
  final            boolean not null default false,
  opened           integer not null default 0,
  first_opened_at  timestamptz,
  clicked          integer not null default 0,
  first_clicked_at timestamptz,
  registered_at    timestamptz not null default now(),
  constraint messages_pkey primary key (source, message_id),
  constraint messages_message_id_check check (octet_length(message_id) between 1 and 512),
  constraint messages_status_check check (status <> '')
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);

comment on column messages.status_at is 'The provider''s time of the event that set the status; the earliest, where several did. Null until one has.';
comment on column messages.final is 'Whether the status is one that needs no asking for, by the source''s settings.';
comment on column messages.opened is 'How many distinct events gave the status opened.';
comment on column messages.first_opened_at is 'The least provider time of those.';

-- What the reconciler asks for.
create index messages_unsettled on messages (source, registered_at) where not final;

-- The distinct events about messages, those that move no status among them.
create table message_events (
  inbox_id    bigint not null,
  source      text not null,
  message_id  text not null,
  type        text not null,
  recipient   text,
  occurred_at timestamptz not null,
  constraint message_events_pkey primary key (inbox_id)
) with (autovacuum_vacuum_insert_scale_factor = 0.05);

comment on column message_events.type is 'As the provider sent it.';

create index message_events_message on message_events (source, message_id);

-- Recipients not to write to again.
create table suppressions (
  source      text not null,
  recipient   text not null,
  reason      text not null,
  category    text not null default '',
  occurred_at timestamptz not null,
  event_key   text not null,
  inbox_id    bigint not null,
  stored_at   timestamptz not null default now(),
  constraint suppressions_pkey primary key (source, recipient, reason, category)
);

comment on table suppressions is 'Recipients not to write to again, and the first event, by the provider''s time, that says so.';
comment on column suppressions.reason is 'The status that suppresses: bounced, complained or unsubscribed, unless the source''s settings say otherwise.';
comment on column suppressions.category is 'What an unsubscribed recipient does not want, where the event says it; empty for everything.';

-- Events that came before their message was registered wait in the inbox. The
-- registration makes them due, however it is done. Those that a processor holds
-- right now are left to it: it looks again soon.
-- +goose StatementBegin
create function wake_waiting_events() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  with due as materialized (
    select w.id
    from registered r
    cross join lateral (
      select i.id from inbox i
      where i.state = 'waiting' and i.source = r.source and i.subject = r.message_id
      for update of i skip locked
    ) w
  )
  update inbox i set next_attempt_at = now() from due where i.id = due.id;
  return null;
end $$;
-- +goose StatementEnd

create trigger messages_registered after insert on messages
referencing new table as registered
for each statement execute function wake_waiting_events();

-- For people who know the reference document's own table.
create view webhook_events as
select i.source, i.event_key, i.subject as message_id, i.event_type as type, i.occurred_at, body_as_jsonb(p.body) as payload,
  i.received_at, i.processed_at, i.state, i.origin, p.body as raw_body
from inbox i left join inbox_payload p on p.inbox_id = i.id and p.received_at = i.received_at;

grant select, insert, update on messages, suppressions to catchwater_processor;
grant select, insert on message_events to catchwater_processor;

-- Messages without a final status are asked for like tasks without a result.
grant select on messages to catchwater_reconciler;
grant insert on submitted_tasks to catchwater_reconciler;
