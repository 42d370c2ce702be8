package test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/migrate"
	"github.com/catchwater/catchwater/test/harness"
)

// TestServicesMeetAnOlderSchema starts every service on a database without the
// schema: each says so, stays unready, and becomes ready when it is migrated.
func TestServicesMeetAnOlderSchema(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	s.Exec("create database bare")
	s.UseDatabase("bare")
	ingress := s.LaunchService("ingress")
	services := []*harness.Service{ingress, s.LaunchService("processor"), s.LaunchService("reconciler")}
	for _, service := range services {
		harness.Await(t, 10*time.Second, "the service to say what it misses", func() error {
			response, err := http.Get("http://" + service.HealthAddr + "/readyz")
			if err != nil {
				return err
			}
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body)
			if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "run `catchwater migrate`") {
				return fmt.Errorf("/readyz answers %s %q", response.Status, text)
			}
			return nil
		})
	}
	body := harness.Task("t", "t", "COMPLETED", "2026-01-02T03:04:05Z")
	expect(t, harness.Post(t, ingress.Addr, "/hooks/answers", body, harness.Secret), 503)
	if _, err := migrate.Up(t.Context(), s.Postgres.URL("bare")); err != nil {
		t.Fatal(err)
	}
	for _, service := range services {
		service.AwaitReady()
	}
	expect(t, harness.Post(t, ingress.Addr, "/hooks/answers", body, harness.Secret), 204)
}

// TestRolesCanDoNoMore tries, as each service's role, what it has no need for.
func TestRolesCanDoNoMore(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	for role, statements := range map[string][]string{
		"catchwater_ingress": {
			"select * from inbox_payload", "update inbox set state = state", "delete from inbox", "delete from inbox_payload",
			"select * from answers", "select * from submitted_tasks", "insert into answers default values", "create table mine (n int)",
			"select * from messages", "insert into messages (source, message_id) values ('s', 'x')", "select make_payload_partitions(1)",
			"select * from effects",
		},
		"catchwater_processor": {
			"insert into inbox (source) values ('x')", "delete from inbox", "update inbox_payload set body = ''", "delete from answers",
			"insert into submitted_tasks (task_id) values ('x')", "delete from messages", "update message_events set type = ''", "delete from suppressions",
			"delete from effects", "select trim_effects('30 days', 1)", "create table mine (n int)",
		},
		"catchwater_reconciler": {
			"select * from inbox_payload", "update inbox set state = state", "delete from inbox", "select * from answers",
			"insert into answers default values", "delete from submitted_tasks", "update messages set status = 'x'", "select * from message_events",
			"select * from effects", "delete from effects", "create table mine (n int)",
		},
	} {
		conn, err := pgx.Connect(t.Context(), s.RoleURL(role))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		for _, statement := range statements {
			if _, err := conn.Exec(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "42501") {
				t.Errorf("%s: %s: %v; want that it is not allowed", role, statement, err)
			}
		}
	}
}
