// Command bench measures, in one run on one machine:
//
//   - deliveries accepted a second, and their p50 and p99, at 1, 32, 128 and
//     1,000 connections, by Catchwater's ingress and by a plain handler that
//     inserts one row a request;
//   - rows a second through the processor, on backlogs of 100,000 results, and
//     of 100,000 status events in no order;
//   - the time from the 204 to the row in answers, at 500 deliveries a second;
//   - what tracing 1 % of the deliveries costs, and what a broker that is away
//     does: deliveries accepted a second with and without, in turn.
//
// Bodies have 2 KB. Postgres commits to disk (fsync on). The ratios are what
// counts: the figures are the machine's.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/migrate"
	"github.com/catchwater/catchwater/pkg/pgserver"
)

const (
	secret       = "whsec_0123456789abcdef"
	rolePassword = "for-the-benchmark-only"
)

func main() {
	plain := flag.String("plain", "", "be the plain handler on this address (the benchmark starts itself so)")
	seconds := flag.Int("seconds", 8, "how long each load lasts")
	backlog := flag.Int("backlog", 100_000, "rows for the processor")
	only := flag.String("only", "", "measure only this: ingress, processor, answer, tracing or broker")
	flag.Parse()
	run := func() error { return measure(time.Duration(*seconds)*time.Second, *backlog, *only) }
	if *plain != "" {
		run = func() error { return servePlain(*plain) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is the system that is measured.
type bench struct {
	dir      string
	bin      string
	postgres *pgserver.Server
	pool     *pgxpool.Pool
	nats     *program
	natsURL  string
	natsPort int
	config   string
}

func measure(seconds time.Duration, backlog int, only string) error {
	ctx := context.Background()
	b, stop, err := start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%s, %d CPUs, %s, %s; bodies of 2 KB; each load lasts %s\n\n", cpuModel(), runtime.NumCPU(), runtime.Version(), b.version(ctx), seconds)
	measured := false
	for _, phase := range []struct {
		name string
		run  func() error
	}{
		{"ingress", func() error { return b.compareIngress(ctx, seconds) }},
		{"processor", func() error { return b.compareProjections(ctx, backlog) }},
		{"answer", func() error { return b.timeToAnswer(ctx, seconds) }},
		{"tracing", func() error { return b.compareTracing(ctx, seconds) }},
		{"broker", func() error { return b.compareBroker(ctx, seconds) }},
	} {
		if only != "" && only != phase.name {
			continue
		}
		measured = true
		if err := phase.run(); err != nil {
			return err
		}
	}
	if !measured {
		return fmt.Errorf("-only is %q: use ingress, processor, answer, tracing or broker", only)
	}
	return nil
}

// start builds the programs and starts Postgres and NATS.
func start(ctx context.Context) (*bench, func(), error) {
	dir, err := os.MkdirTemp("", "catchwater-bench-")
	if err != nil {
		return nil, nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // Postgres may run as another user
		return nil, nil, err
	}
	b := &bench{dir: dir, bin: filepath.Join(dir, "bin"), config: filepath.Join(dir, "catchwater.yaml")}
	var stops []func()
	stop := func() {
		for _, s := range slices.Backward(stops) {
			s()
		}
		_ = os.RemoveAll(dir)
	}
	fail := func(err error) (*bench, func(), error) {
		stop()
		return nil, nil, err
	}
	if err := b.build(ctx); err != nil {
		return fail(err)
	}
	if err := os.WriteFile(b.config, []byte("sources:\n  answers:\n    preset: answerline\n    secrets: [{env: ANSWERLINE_SECRET}]\n  mail:\n    preset: koltrix\n    secrets: [{env: ANSWERLINE_SECRET}]\n"), 0o600); err != nil {
		return fail(err)
	}
	binaries, err := pgserver.FindBinaries()
	if err != nil {
		return fail(err)
	}
	b.postgres, err = pgserver.Start(ctx, pgserver.Options{Binaries: binaries, DataDir: filepath.Join(dir, "postgres"), Settings: map[string]string{
		"track_commit_timestamp": "on", "max_connections": "100", "shared_buffers": "512MB", "max_wal_size": "4GB",
	}})
	if err != nil {
		return fail(err)
	}
	stops = append(stops, b.postgres.Kill)
	if _, err := migrate.Up(ctx, b.postgres.URL("postgres")); err != nil {
		return fail(err)
	}
	if b.pool, err = pgxpool.New(ctx, b.postgres.URL("postgres")); err != nil {
		return fail(err)
	}
	stops = append(stops, b.pool.Close)
	for _, role := range []string{"ingress", "processor"} {
		if err := b.exec(ctx, fmt.Sprintf("alter role catchwater_%s password '%s'", role, rolePassword)); err != nil {
			return fail(err)
		}
	}
	if b.natsPort, err = pgserver.FreePort(); err != nil {
		return fail(err)
	}
	b.natsURL = fmt.Sprintf("nats://127.0.0.1:%d", b.natsPort)
	if err := b.startBroker(); err != nil {
		return fail(err)
	}
	stops = append(stops, func() { b.nats.stop() })
	return b, stop, nil
}

// startBroker starts NATS, again after it was stopped.
func (b *bench) startBroker() (err error) {
	b.nats, err = b.run("nats-server", []string{"-js", "-sd", filepath.Join(b.dir, "nats"), "-a", "127.0.0.1", "-p", fmt.Sprint(b.natsPort)}, nil)
	return err
}

func (b *bench) exec(ctx context.Context, sql string, args ...any) error {
	if _, err := b.pool.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}
