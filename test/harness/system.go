package harness

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/catchwater/catchwater/pkg/migrate"
	"github.com/catchwater/catchwater/pkg/pgserver"
)

// Secret is what the demonstration source's deliveries are signed with.
const Secret = "whsec_0123456789abcdef"

// rolePassword is the services' in tests.
const rolePassword = "for-tests-only"

// System is one whole Catchwater, of as many processes as a test asks for.
type System struct {
	T        testing.TB
	Dir      string
	Postgres *pgserver.Server
	*Database
	NATS    *Process
	NATSURL string

	postgres   pgserver.Options
	configPath string
	natsPort   int
	database   string
	databases  map[string]string // a service's own URL, where it is not the usual one
}

// New starts Postgres, migrates it, and starts NATS. Services are for the test
// to start.
func New(t testing.TB) *System {
	t.Helper()
	dir, err := os.MkdirTemp("", "catchwater-system-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // Postgres may run as another user
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binaries, err := pgserver.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	s := &System{T: t, Dir: dir, database: "postgres", databases: make(map[string]string)}
	s.postgres = pgserver.Options{
		Binaries: binaries, DataDir: filepath.Join(dir, "postgres"), Port: s.Port(),
		Settings: map[string]string{"fsync": "off", "max_connections": "200"},
	}
	s.StartPostgres()
	t.Cleanup(func() { s.Postgres.Kill() })
	if _, err := migrate.Up(t.Context(), s.DatabaseURL()); err != nil {
		t.Fatal(err)
	}
	s.Database = s.Open("postgres")
	for _, service := range []string{"ingress", "processor", "reconciler"} {
		s.Exec(fmt.Sprintf("alter role catchwater_%s password '%s'", service, rolePassword))
	}
	s.natsPort = s.Port()
	s.NATSURL = fmt.Sprintf("nats://127.0.0.1:%d", s.natsPort)
	s.NATS = newProcess(t, "nats", dir, Program(t, "nats-server"),
		[]string{"-js", "-sd", filepath.Join(dir, "nats"), "-a", "127.0.0.1", "-p", fmt.Sprint(s.natsPort)}, nil)
	s.Configure("sources:\n  answers:\n    preset: answerline\n    secrets: [{env: ANSWERLINE_SECRET}]\n")
	return s
}

// StartPostgres starts the cluster, again after it was stopped.
func (s *System) StartPostgres() {
	s.T.Helper()
	server, err := pgserver.Start(s.T.Context(), s.postgres)
	if err != nil {
		s.T.Fatal(err)
	}
	s.Postgres = server
	if s.Database != nil {
		s.DB.Reset() // its connections were to the server that stopped
	}
}

// StopPostgres stops the cluster, its clients notwithstanding.
func (s *System) StopPostgres() {
	s.T.Helper()
	if err := s.Postgres.Stop(); err != nil {
		s.T.Fatal(err)
	}
}

// WipeNATS kills the broker and deletes all that it had stored.
func (s *System) WipeNATS() {
	s.T.Helper()
	s.NATS.Kill()
	if err := os.RemoveAll(filepath.Join(s.Dir, "nats")); err != nil {
		s.T.Fatal(err)
	}
}

// Port returns a port that is free now.
func (s *System) Port() int {
	s.T.Helper()
	port, err := pgserver.FreePort()
	if err != nil {
		s.T.Fatal(err)
	}
	return port
}

// DatabaseURL is the superuser's.
func (s *System) DatabaseURL() string { return s.Postgres.URL("postgres") }

// Through makes a service reach Postgres through another address.
func (s *System) Through(service, address string) {
	u, err := url.Parse(s.roleURL(service))
	if err != nil {
		s.T.Fatal(err)
	}
	u.Host = address
	s.databases[service] = u.String()
}

func (s *System) roleURL(service string) string {
	if custom := s.databases[service]; custom != "" {
		return custom
	}
	return s.RoleURL("catchwater_" + service)
}

// RoleURL is the connection string of a service's role.
func (s *System) RoleURL(role string) string {
	return s.Postgres.UserURL(s.database, role, rolePassword)
}

// UseDatabase gives services started from now on another database of the
// cluster.
func (s *System) UseDatabase(name string) { s.database = name }

// Configure writes the sources file that services started from now on read.
func (s *System) Configure(yaml string) {
	s.T.Helper()
	s.configPath = filepath.Join(s.Dir, fmt.Sprintf("catchwater-%d.yaml", time.Now().UnixNano()))
	if err := os.WriteFile(s.configPath, []byte(yaml), 0o600); err != nil {
		s.T.Fatal(err)
	}
}

// Service is a running service of the system.
type Service struct {
	*Process
	Addr       string // of what it serves, where it serves anything
	HealthAddr string
}

// Restart stops the service in order and starts it again.
func (s *Service) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
	s.AwaitReady()
}

// AwaitReady returns when the service says that it is ready.
func (s *Service) AwaitReady() {
	s.t.Helper()
	s.awaitReady(s.HealthAddr)
}

// StartService starts a service with extra environment, NAME=value, and waits
// until it is ready.
func (s *System) StartService(name string, env ...string) *Service {
	s.T.Helper()
	service := s.LaunchService(name, env...)
	service.AwaitReady()
	return service
}

// LaunchService is StartService without waiting.
func (s *System) LaunchService(name string, env ...string) *Service {
	s.T.Helper()
	return s.LaunchProgram(name, Program(s.T, name), env...)
}

// LaunchProgram runs a program in a service's place, with what that is given.
func (s *System) LaunchProgram(name, program string, env ...string) *Service {
	s.T.Helper()
	addr, health := fmt.Sprintf("127.0.0.1:%d", s.Port()), fmt.Sprintf("127.0.0.1:%d", s.Port())
	base := []string{
		"NATS_URL=" + s.NATSURL, "CATCHWATER_CONFIG=" + s.configPath, "CATCHWATER_LISTEN=" + addr,
		"CATCHWATER_HEALTH_LISTEN=" + health, "ANSWERLINE_SECRET=" + Secret, "ANSWERLINE_API_KEY=sim-key", "KOLTRIX_SECRET=" + Secret, "KOLTRIX_API_KEY=sim-key",
		"SIMULATOR_WEBHOOK_SECRET=" + Secret,
		"SIMULATOR_KOLTRIX_WEBHOOK_SECRET=" + Secret, "EFFECT_SECRET=" + EffectSecret,
	}
	if name != "simulator" {
		base = append(base, "DATABASE_URL="+s.roleURL(name))
	}
	process := newProcess(s.T, fmt.Sprintf("%s-%s", name, addr[strings.LastIndex(addr, ":")+1:]), s.Dir, program, nil, slices.Concat(base, env))
	return &Service{Process: process, Addr: addr, HealthAddr: health}
}

// ConfigPath is the sources file that services started from now on read.
func (s *System) ConfigPath() string { return s.configPath }

// StartProgram starts a program that is none of the system's.
func (s *System) StartProgram(name, program string, args ...string) *Process {
	s.T.Helper()
	return newProcess(s.T, name, s.Dir, program, args, nil)
}

// Metric returns the value of a sample on a service's /metrics, 0 without it.
func (s *Service) Metric(sample string) float64 {
	s.t.Helper()
	response, err := http.Get("http://" + s.HealthAddr + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, sample+" "); ok {
			var value float64
			if _, err := fmt.Sscan(rest, &value); err != nil {
				s.t.Fatal(err)
			}
			return value
		}
	}
	return 0
}

// AwaitDoorbell returns when the broker tells a processor of new rows (1), or no
// longer does (0).
func (s *Service) AwaitDoorbell(want float64) {
	s.t.Helper()
	Await(s.t, time.Minute, fmt.Sprintf("the doorbell to be %v", want), func() error {
		if got := s.Metric("catchwater_processor_doorbell_up"); got != want {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
}
