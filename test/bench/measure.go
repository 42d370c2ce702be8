package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/pgserver"
)

// compareIngress measures the ingress and the plain handler in turn, at each
// number of connections.
func (b *bench) compareIngress(ctx context.Context, lasting time.Duration) error {
	if err := b.exec(ctx, `create table plain_inbox (task_id text primary key, body jsonb not null,
		received_at timestamptz not null default now(), processed_at timestamptz)`); err != nil {
		return err
	}
	if err := b.exec(ctx, "create index on plain_inbox (received_at) where processed_at is null"); err != nil {
		return err
	}
	ingress, err := b.service("ingress")
	if err != nil {
		return err
	}
	defer ingress.stop()
	plain, err := b.plain()
	if err != nil {
		return err
	}
	defer func() { _ = plain.cmd.Process.Kill(); _ = plain.cmd.Wait() }()

	fmt.Printf("%-12s  %26s  %26s  %s\n", "connections", "(a) ingress", "(b) plain handler", "(a) / (b)")
	for round, connections := range []int{1, 32, 128, 1000} {
		var results [2]figures
		for i, p := range []*program{ingress, plain} {
			if err := b.exec(ctx, "checkpoint"); err != nil {
				return err
			}
			if _, err := load(p.addr, fmt.Sprintf("warm-%d-%d", round, i), min(connections, 32), time.Second); err != nil {
				return err
			}
			if results[i], err = load(p.addr, fmt.Sprintf("load-%d-%d", round, i), connections, lasting); err != nil {
				return err
			}
		}
		fmt.Printf("%-12d  %26s  %26s  %.2f\n", connections, results[0], results[1], results[0].rate/results[1].rate)
	}
	fmt.Printf("\ningress resident after 1,000 connections: %d MB\n\n", ingress.resident())
	return b.exec(ctx, "truncate inbox, inbox_payload, answers, plain_inbox")
}

func (f figures) String() string {
	return fmt.Sprintf("%6.0f/s %6.2f / %6.2f ms", f.rate, f.p50.Seconds()*1000, f.p99.Seconds()*1000)
}

// plain starts this program as the plain handler.
func (b *bench) plain() (*program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := pgserver.FreePort()
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := b.run(self, []string{"-plain", addr}, []string{"DATABASE_URL=" + b.postgres.URL("postgres")})
	if err != nil {
		return nil, err
	}
	p.addr = addr
	return p, await(func() bool {
		s, err := dialSender(addr)
		if err != nil {
			return false
		}
		return s.conn.Close() == nil
	}, "the plain handler")
}

// answersBacklog is so many results, each of a task of its own.
func (b *bench) answersBacklog(_ context.Context, rows int) ([]inbox.Delivery, error) {
	deliveries := make([]inbox.Delivery, rows)
	for n := range rows {
		id := fmt.Sprintf("backlog-%d", n)
		deliveries[n] = inbox.Delivery{Source: "answers", EventKey: id, EventType: "COMPLETED", Subject: id, Origin: inbox.FromDelivery, Body: body(id)}
	}
	return deliveries, nil
}

// history is what happens to each message of the benchmark.
var history = []string{"sent", "delivered", "opened", "opened", "clicked", "unsubscribed", "complained"}

// messagesBacklog is so many events about registered messages, seven a message,
// in no order.
func (b *bench) messagesBacklog(ctx context.Context, rows int) ([]inbox.Delivery, error) {
	deliveries := make([]inbox.Delivery, rows)
	began := time.Now().Truncate(time.Second)
	for n := range rows {
		id, at := fmt.Sprintf("message-%d", n/len(history)), began.Add(time.Duration(n%len(history))*time.Second)
		event := "message." + history[n%len(history)]
		deliveries[n] = inbox.Delivery{
			Source: "mail", EventKey: fmt.Sprintf("%s|%s|%d", id, event, at.Unix()), EventType: event, Subject: id, OccurredAt: at, Origin: inbox.FromDelivery,
			Body: fmt.Appendf(nil, `{"event":%q,"timestamp":%d,"message_id":%q,"to":"%s@example.org","subject":%q}`, event, at.Unix(), id, id, strings.Repeat("x", 1800)),
		}
	}
	rand.Shuffle(rows, func(i, j int) { deliveries[i], deliveries[j] = deliveries[j], deliveries[i] })
	return deliveries, b.exec(ctx, "insert into messages (source, message_id) select 'mail', 'message-' || n from generate_series(0, $1::integer) n", rows/len(history))
}

// processBacklog measures the processor on rows that nobody announced, and
// returns how many a second it processed.
func (b *bench) processBacklog(ctx context.Context, name string, rows int, deliveriesOf func(context.Context, int) ([]inbox.Delivery, error)) (float64, error) {
	deliveries, err := deliveriesOf(ctx, rows)
	if err != nil {
		return 0, err
	}
	store := inbox.NewStore(b.pool, 0)
	for batch := range slices.Chunk(deliveries, 1000) {
		if _, err := store.Insert(ctx, batch); err != nil {
			return 0, err
		}
	}
	if err := b.exec(ctx, "vacuum analyze"); err != nil {
		return 0, err
	}
	if err := b.exec(ctx, "checkpoint"); err != nil {
		return 0, err
	}
	processor, err := b.service("processor")
	if err != nil {
		return 0, err
	}
	defer processor.stop()
	if err := await(func() bool {
		var pending bool
		err := b.pool.QueryRow(ctx, "select exists (select 1 from inbox where state = 'pending')").Scan(&pending)
		return err == nil && !pending
	}, "the backlog to be worked off"); err != nil {
		return 0, err
	}
	var first, last time.Time
	if err := b.pool.QueryRow(ctx, "select min(processed_at), max(pg_xact_commit_timestamp(xmin)) from inbox").Scan(&first, &last); err != nil {
		return 0, err
	}
	rate := float64(rows) / last.Sub(first).Seconds()
	fmt.Printf("processor, %s: %d rows in %.2f s, %.0f rows a second\n", name, rows, last.Sub(first).Seconds(), rate)
	return rate, b.exec(ctx, "truncate inbox, inbox_payload, answers, messages, message_events, suppressions")
}

// compareProjections measures the processor on a backlog of each projection.
func (b *bench) compareProjections(ctx context.Context, rows int) error {
	answers, err := b.processBacklog(ctx, "answers", rows, b.answersBacklog)
	if err != nil {
		return err
	}
	messages, err := b.processBacklog(ctx, "messages", rows, b.messagesBacklog)
	if err != nil {
		return err
	}
	fmt.Printf("messages / answers: %.2f\n\n", messages/answers)
	return nil
}

// timeToAnswer measures from the 204 to the commit of the answer.
func (b *bench) timeToAnswer(ctx context.Context, lasting time.Duration) error {
	const rate, connections = 500, 32
	ingress, err := b.service("ingress")
	if err != nil {
		return err
	}
	defer ingress.stop()
	processor, err := b.service("processor")
	if err != nil {
		return err
	}
	defer processor.stop()
	if _, err := load(ingress.addr, "warm", 4, time.Second); err != nil {
		return err
	}
	acknowledged := make(map[string]time.Time)
	var mu sync.Mutex
	var firstErr error
	turns := make(chan int)
	var group sync.WaitGroup
	for range connections {
		s, err := dialSender(ingress.addr)
		if err != nil {
			return err
		}
		defer s.conn.Close()
		group.Go(func() {
			for n := range turns {
				id := fmt.Sprintf("timed-%d", n)
				err := s.send(id)
				mu.Lock()
				acknowledged[id] = time.Now()
				if err != nil {
					firstErr = err
				}
				mu.Unlock()
			}
		})
	}
	began := time.Now()
	for n := range int(rate * lasting.Seconds()) {
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / rate)))
		turns <- n
	}
	close(turns)
	group.Wait()
	if firstErr != nil {
		return firstErr
	}
	if err := await(func() bool {
		n := 0
		err := b.pool.QueryRow(ctx, "select count(*) from answers where task_id like 'timed-%'").Scan(&n)
		return err == nil && n == len(acknowledged)
	}, "all answers"); err != nil {
		return err
	}
	rows, err := b.pool.Query(ctx, "select task_id, pg_xact_commit_timestamp(xmin) from answers where task_id like 'timed-%'")
	if err != nil {
		return err
	}
	defer rows.Close()
	var all []time.Duration
	for rows.Next() {
		var id string
		var committed time.Time
		if err := rows.Scan(&id, &committed); err != nil {
			return err
		}
		all = append(all, max(committed.Sub(acknowledged[id]), 0)) // some are there before the sender has read its 204
	}
	f := summarise(all, lasting)
	fmt.Printf("from 204 to answer at %d a second (%d deliveries): p50 %.2f ms, p99 %.2f ms\n", rate, len(all), f.p50.Seconds()*1000, f.p99.Seconds()*1000)
	return rows.Err()
}
