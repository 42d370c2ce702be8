-- +goose NO TRANSACTION
-- +goose Up

-- Finds the events that wait for a message. Built beside the inserts of a live
-- inbox, which takes a transaction of its own; a build that was broken off leaves
-- an index that nobody can use, and is begun anew.
drop index concurrently if exists inbox_waiting;

create index concurrently inbox_waiting on inbox (source, subject) where state = 'waiting';
