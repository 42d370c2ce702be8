package test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/test/harness"
)

// TestARestoredBackupAndReconciling loses the database and goes on with a backup
// that is older than a part of what had been acknowledged: asking the provider
// brings all of it back, with one row and one answer each, and no sender knows.
func TestARestoredBackupAndReconciling(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress := s.StartService("ingress")
	processor := s.StartService("processor")
	simulator, _ := s.Simulator(ingress.Addr)
	s.Configure(reconciling(simulator.Addr, ""))
	const before, after, unregistered = 30, 30, 10
	s.Exec("insert into submitted_tasks (task_id) select unnest($1::text[])", simulator.Burst(before, 0))
	for n := range after { // submitted before the backup, ended after it
		id := fmt.Sprintf("held-%d", n)
		simulator.Call(http.MethodPost, "/control/tasks", map[string]any{"hold": true, "id": id}, nil)
		s.Exec("insert into submitted_tasks (task_id) values ($1)", id)
	}
	s.AwaitInt(30*time.Second, before, answersCount)

	// The backup is a copy of the database's files, which nobody may use meanwhile.
	processor.Stop()
	ingress.Stop()
	s.DB.Reset()
	admin, err := pgx.Connect(t.Context(), s.Postgres.URL("template1"))
	if err != nil {
		t.Fatal(err)
	}
	harness.Await(t, 30*time.Second, "the backup to be made", func() error {
		if _, err := admin.Exec(t.Context(), "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'postgres'"); err != nil {
			return err
		}
		_, err := admin.Exec(t.Context(), "create database restored template postgres")
		return err
	})
	_ = admin.Close(t.Context())
	s.DB.Reset()
	ingress.Start()
	processor.Start()
	ingress.AwaitReady()

	for n := range after {
		simulator.Call(http.MethodPost, fmt.Sprintf("/control/tasks/held-%d/finish", n), map[string]any{}, nil)
	}
	late := simulator.Burst(unregistered, 0)
	s.AwaitInt(30*time.Second, before+after+unregistered, answersCount)
	acknowledged := simulator.Report(20 * time.Second).Deliveries
	if acknowledged.Delivered != before+after+unregistered {
		t.Fatalf("%d deliveries were acknowledged", acknowledged.Delivered)
	}

	// The database is lost, and the backup is all there is.
	processor.Stop()
	ingress.Stop()
	s.UseDatabase("restored")
	restored := s.Open("restored")
	if n := restored.Int(answersCount); n != before {
		t.Fatalf("the backup has %d answers, want %d", n, before)
	}
	s.StartService("ingress")
	s.StartService("processor")
	s.StartService("reconciler", "CATCHWATER_SCAN_INTERVAL=100ms")
	// What was submitted after the backup is known to whoever submitted it.
	restored.Exec("insert into submitted_tasks (task_id) select unnest($1::text[])", late)
	restored.AwaitInt(time.Minute, before+after+unregistered, answersCount)
	restored.AwaitInt(30*time.Second, 0, "select count(*) from submitted_tasks where settled_at is null")
	if rows, asked := restored.Int("select count(*) from inbox"), restored.Int(recovered); rows != before+after+unregistered || asked != after+unregistered {
		t.Errorf("%d rows, %d of them by asking; want %d and %d", rows, asked, before+after+unregistered, after+unregistered)
	}
	if again := simulator.Report(0).Deliveries; again.Sends != acknowledged.Sends {
		t.Errorf("the sender sent %d times more", again.Sends-acknowledged.Sends)
	}
}
