-- +goose Up

set lock_timeout = '5s';

-- Roles: one per service, least privilege. They can log in but have no
-- password: an operator (or `catchwater up`) gives them one.
-- +goose StatementBegin
do $$
declare r text;
begin
  foreach r in array array['catchwater_ingress', 'catchwater_processor', 'catchwater_reconciler'] loop
    begin
      execute format('create role %I login', r);
    exception when duplicate_object or unique_violation then null;
    end;
    execute format('alter role %I set idle_in_transaction_session_timeout = %L', r, '30s');
    execute format('alter role %I set lock_timeout = %L', r, '10s');
  end loop;
end $$;
-- +goose StatementEnd

create type inbox_origin as enum ('delivery', 'reconcile', 'import');
create type inbox_state as enum ('pending', 'waiting', 'processed', 'quarantined');

-- What has been seen, and what has become of it. Narrow, because each change
-- of state writes a new version of the row and of the partial index.
create table inbox (
  id              bigint generated always as identity primary key,
  source          text not null,
  event_key       text not null,
  event_type      text,
  subject         text,
  occurred_at     timestamptz,
  received_at     timestamptz not null default now(),
  origin          inbox_origin not null default 'delivery',
  body_hash       bytea not null,
  traceparent     text,
  state           inbox_state not null default 'pending',
  attempts        integer not null default 0,
  next_attempt_at timestamptz,
  last_error      text,
  processed_at    timestamptz,
  constraint inbox_source_event_key_key unique (source, event_key),
  -- Short, and the only one: an insert of one row pays for each node of it.
  constraint inbox_check check (
    case state
      when 'processed' then processed_at is not null
      when 'quarantined' then last_error is not null
      else next_attempt_at is not null
    end
  )
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.05,
        autovacuum_analyze_scale_factor = 0.02);

comment on table inbox is 'One row per event, whoever brought it and however often. The source of truth.';
comment on column inbox.occurred_at is 'The provider''s time of the event, where the body says it.';
comment on column inbox.body_hash is 'SHA-256 of the raw body, to tell a duplicate from a conflict.';
comment on column inbox.next_attempt_at is 'When a processor that has not been told of the row may look at it.';

-- Serves due rows only; those in quarantine are never due, and stand at its end.
create index inbox_due on inbox (next_attempt_at) where state <> 'processed';

-- The bytes exactly as signed. Written once, never rewritten, dropped by day.
create table inbox_payload (
  inbox_id    bigint not null,
  received_at timestamptz not null,
  body        bytea not null,
  headers     jsonb not null default '{}',
  constraint inbox_payload_pkey primary key (inbox_id, received_at)
) partition by range (received_at);

alter table inbox_payload alter column body set compression lz4;

create table inbox_payload_default partition of inbox_payload default;

-- Results of asynchronous tasks, one row a task.
create table answers (
  source            text not null,
  task_id           text not null,
  job_key           text not null,
  idempotency_key   text,
  task_type         text,
  status            text not null,
  created_at        timestamptz not null,
  credits_charged   numeric,
  response          jsonb,
  response_repaired boolean not null default false,
  inbox_id          bigint not null,
  stored_at         timestamptz not null default now(),
  constraint answers_pkey primary key (source, task_id),
  constraint answers_job_key_check check (job_key <> '')
) with (autovacuum_vacuum_insert_scale_factor = 0.05);

comment on column answers.response is 'What the provider answered, as jsonb for queries; the exact bytes are in inbox_payload.';
comment on column answers.response_repaired is 'True where the response could not be jsonb as sent (U+0000, lone surrogates, invalid UTF-8, out-of-range numbers) and was repaired.';

-- Serves job_results: the latest COMPLETED task of each job.
create index answers_job on answers (source, job_key, created_at desc, task_id desc) where status = 'COMPLETED';

-- What this side asked a provider for.
create table submitted_tasks (
  id                     bigint generated always as identity primary key,
  source                 text not null default 'answers',
  idempotency_key        text,
  task_id                text,
  created_at             timestamptz not null default now(),
  settled_at             timestamptz,
  polls                  integer not null default 0,
  last_polled_at         timestamptz,
  last_poll_result       text,
  next_poll_at           timestamptz,
  needs_investigation_at timestamptz,
  constraint submitted_tasks_idempotency_key_key unique (source, idempotency_key),
  constraint submitted_tasks_task_id_key unique (source, task_id),
  constraint submitted_tasks_named_check check (task_id is not null or idempotency_key is not null),
  constraint submitted_tasks_task_id_check check (octet_length(task_id) between 1 and 512),
  constraint submitted_tasks_idempotency_key_check check (octet_length(idempotency_key) between 1 and 512)
) with (autovacuum_vacuum_scale_factor = 0.02);

comment on column submitted_tasks.settled_at is 'When a result for the task was seen in the inbox.';
comment on column submitted_tasks.last_poll_result is 'What the provider last said: a task status, an HTTP status, or an error.';

create index submitted_tasks_open on submitted_tasks (created_at) where settled_at is null;

-- Who leads: one row per duty, taken over when it has expired.
create table leases (
  name       text primary key,
  holder     text not null,
  expires_at timestamptz not null
);

-- The one rate limit on the polls of a source, whoever makes them; and a
-- provider that said "not now" (429), or no to the key, which stops them all.
create table poll_limits (
  source       text primary key,
  next_slot_at timestamptz not null default '-infinity',
  paused_until timestamptz not null default '-infinity',
  pause_reason text
);

-- For people who know the reference documents' own tables.
-- A body as jsonb, or null where jsonb cannot hold it (U+0000, lone surrogates,
-- invalid UTF-8, not JSON at all): a view must not fail because of one row.
-- +goose StatementBegin
create function body_as_jsonb(body bytea) returns jsonb
language plpgsql stable parallel safe as $$
begin
  return convert_from(body, 'UTF8')::jsonb;
exception when data_exception or statement_too_complex then
  return null;
end $$;
-- +goose StatementEnd

create view webhook_inbox as
select i.source, i.event_key as task_id, body_as_jsonb(p.body) as body, i.received_at, i.processed_at, i.state, i.origin,
  p.body as raw_body
from inbox i left join inbox_payload p on p.inbox_id = i.id and p.received_at = i.received_at;

create view job_results as
select distinct on (source, job_key)
  source, job_key, task_id, idempotency_key, task_type, status, created_at, credits_charged, response,
  response_repaired, inbox_id, stored_at
from answers
where status = 'COMPLETED'
order by source, job_key, created_at desc, task_id desc;

grant usage on schema public to catchwater_ingress, catchwater_processor, catchwater_reconciler;

grant select, insert on inbox to catchwater_ingress;
grant insert on inbox_payload to catchwater_ingress;

grant select, update on inbox to catchwater_processor;
grant select on inbox_payload to catchwater_processor;
grant select, insert, update on answers to catchwater_processor;
grant select, update on submitted_tasks to catchwater_processor;

grant select, insert on inbox to catchwater_reconciler;
grant insert on inbox_payload to catchwater_reconciler;
grant select, update on submitted_tasks to catchwater_reconciler;
grant select, insert, update on leases, poll_limits to catchwater_reconciler;

-- Every service looks here before it calls itself ready.
grant select on goose_db_version to catchwater_ingress, catchwater_processor, catchwater_reconciler;
