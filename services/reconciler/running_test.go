package reconciler_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/catchwater/catchwater/pkg/migrate"
	"github.com/catchwater/catchwater/pkg/pgtest"
	"github.com/catchwater/catchwater/services/reconciler"
)

// startBroker starts a NATS server inside the test.
func startBroker(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(within) {
		t.Fatal("the broker does not take connections")
	}
	return s
}

// final submits tasks that have ended.
func (s *system) final(prefix string, count int) {
	s.t.Helper()
	for n := range count {
		id := fmt.Sprintf("%s-%d", prefix, n)
		s.provider.answer(id, task(id, "COMPLETED"))
		s.submit(id)
	}
}

// TestPollsAreSharedAndTheBrokerIsAConvenience loses the broker under way.
func TestPollsAreSharedAndTheBrokerIsAConvenience(t *testing.T) {
	t.Parallel()
	s := newSystem(t, pgtest.New(t), "")
	broker := startBroker(t)
	s.nats = broker.ClientURL()
	both := []*running{s.start(), s.start()}
	for _, r := range both {
		await(t, "the broker to be listened to", func() string {
			if strings.Contains(r.log.String(), "listening for the doorbell") {
				return ""
			}
			return r.log.String()
		})
	}
	shared := 0
	for round := 0; shared < 2; round++ { // once may be chance
		s.final(fmt.Sprintf("with-%d", round), 40)
		s.await("0", open)
		shared = 0
		for _, r := range both {
			if _, metrics := r.get("/metrics"); strings.Contains(metrics, `catchwater_reconciler_polls_total{result="final"`) {
				shared++
			}
		}
		if round == 20 {
			t.Fatal("only one reconciler asks")
		}
	}
	broker.Shutdown()
	broker.WaitForShutdown()
	s.final("without", 40)
	s.await("0", open)
	if n := s.text("select count(*)::text from submitted_tasks where polls <> 1"); n != "0" {
		t.Errorf("%s tasks were asked for other than once", n)
	}
}

func TestAnotherTakesOverTheLead(t *testing.T) {
	t.Parallel()
	s := newSystem(t, pgtest.New(t), "")
	first := s.start()
	first.awaitMetric("catchwater_reconciler_leader 1")
	second := s.start()
	second.awaitMetric("catchwater_reconciler_leader 0")
	first.stop()
	second.awaitMetric("catchwater_reconciler_leader 1")
	s.final("after", 5)
	s.await("0", open)
	second.awaitMetric(`catchwater_tasks_open{source="answers"} 0`)
}

func TestUnreadyWhileTheSchemaIsMissingOrPostgresAway(t *testing.T) {
	t.Parallel()
	pgtest.New(t) // makes the roles' passwords
	s := newSystem(t, pgtest.Empty(t), "")
	r := s.start()
	ready := func(want int, says string) {
		t.Helper()
		await(t, fmt.Sprintf("readyz to answer %d", want), func() string {
			status, body := r.get("/readyz")
			if status == want && strings.Contains(body, says) {
				return ""
			}
			return fmt.Sprintf("it says %d %s", status, body)
		})
	}
	ready(http.StatusServiceUnavailable, "catchwater migrate")
	if _, err := migrate.Up(t.Context(), s.url); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusOK, "ok")
	r.awaitMetric("catchwater_reconciler_leader 1")

	name := s.text("select current_database()::text")
	admin, err := pgx.Connect(t.Context(), strings.Replace(s.url, "/"+name, "/postgres", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	s.db.Reset()
	for _, sql := range []string{
		"alter database " + name + " allow_connections false",
		"select pg_terminate_backend(pid) from pg_stat_activity where datname = '" + name + "'",
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ready(http.StatusServiceUnavailable, "database: ")
	r.awaitMetric("catchwater_reconciler_leader 0")
	if _, err := admin.Exec(t.Context(), "alter database "+name+" allow_connections true"); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusOK, "ok")
	s.final("after", 3)
	s.await("0", open)
}

// receive waits for a request to the provider.
func receive(t *testing.T, asked <-chan struct{}) {
	t.Helper()
	select {
	case <-asked:
	case <-time.After(within):
		t.Fatal("the provider was not asked")
	}
}

func TestStoppingWaitsForAPollUnderWayButNotForLong(t *testing.T) {
	t.Parallel()
	s := newSystem(t, pgtest.New(t), ", timeout: 1m")
	asked, release := make(chan struct{}, 10), make(chan struct{})
	slow := func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-release:
			task("slow", "COMPLETED")(w, r)
		case <-r.Context().Done():
		}
	}
	s.provider.answer("slow", slow)
	s.submit("slow")
	r := s.start()
	receive(t, asked)
	time.AfterFunc(200*time.Millisecond, func() { close(release) })
	if took := r.stop(); took > 4*time.Second {
		t.Errorf("stopping took %s", took)
	}
	if got := s.text(result, "slow"); got != "COMPLETED" {
		t.Errorf("recorded is %q", got)
	}

	s.provider.answer("hung", func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	s.submit("hung")
	r = s.start()
	receive(t, asked)
	if took := r.stop(); took > 15*time.Second {
		t.Errorf("stopping beside a provider that hangs took %s", took)
	}
	if got := s.text("select (settled_at is null and last_poll_result is null and next_poll_at is not null)::text from submitted_tasks where task_id = 'hung'"); got != "true" {
		t.Error("the poll that was cut off left its mark")
	}
}

func TestTheLeaderKeepsThePartitions(t *testing.T) {
	t.Parallel()
	s := newSystem(t, pgtest.New(t), "")
	day := time.Now().UTC().AddDate(0, 0, -40)
	old := "inbox_payload_" + day.Format("20060102")
	s.exec(fmt.Sprintf("create table %s partition of inbox_payload for values from ('%s') to ('%s')", old, day.Format("2006-01-02 00:00Z"), day.AddDate(0, 0, 1).Format("2006-01-02 00:00Z")))
	next := "inbox_payload_" + time.Now().UTC().AddDate(0, 0, 3).Format("20060102")
	s.exec("drop table " + next)
	s.start()
	s.await("false true", "select concat_ws(' ', (to_regclass($1) is not null)::text, (to_regclass($2) is not null)::text)", old, next)
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	good := reconciler.Config{ScanInterval: time.Second, Workers: 1, Lease: time.Second, PartitionsEvery: time.Second}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for setting, change := range map[string]func(*reconciler.Config){
		"--scan-interval":       func(c *reconciler.Config) { c.ScanInterval = 0 },
		"--partitions-interval": func(c *reconciler.Config) { c.PartitionsEvery = -1 },
		"--workers":             func(c *reconciler.Config) { c.Workers = 65 },
		"--lease":               func(c *reconciler.Config) { c.Lease = time.Millisecond },
		"--payload-retention":   func(c *reconciler.Config) { c.PayloadRetention = time.Hour },
		"--grace":               func(c *reconciler.Config) { c.Grace = -1 },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), setting) {
			t.Errorf("%s: %v", setting, err)
		}
	}
	s := newSystem(t, pgtest.New(t), "")
	s.writeKey("")
	good.Path = s.config
	good.Level = "error"
	if err := reconciler.Run(t.Context(), good); err == nil || !strings.Contains(err.Error(), `source "answers": reconcile.token`) {
		t.Errorf("without an API key: %v", err)
	}
}
