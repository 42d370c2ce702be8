package test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/pgserver"
	"github.com/catchwater/catchwater/test/harness"
)

// TestPasswordsInFiles has `catchwater migrate` give the roles their passwords
// from files that the services read as well, and gives them other ones while
// deliveries go on: a service logs in with the new one without a restart.
func TestPasswordsInFiles(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	folder := t.TempDir()
	give := func(suffix string) {
		t.Helper()
		for _, role := range []string{"catchwater_ingress", "catchwater_processor", "catchwater_reconciler"} {
			if err := os.WriteFile(filepath.Join(folder, role), []byte("the password of "+role+suffix+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := catchwater(t, s, "migrate", "--role-passwords", folder); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	start := func(service string) *harness.Service {
		t.Helper()
		u, err := url.Parse(s.RoleURL("catchwater_" + service))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.User(u.User.Username())
		return s.StartService(service, "DATABASE_URL="+u.String(), "CATCHWATER_DATABASE_PASSWORD_FILE="+filepath.Join(folder, "catchwater_"+service))
	}
	give("")
	ingress, processor, reconciler := start("ingress"), start("processor"), start("reconciler")
	deliver := func(id string) {
		t.Helper()
		body := harness.Task(id, id, "COMPLETED", "2026-01-02T03:04:05Z")
		harness.Await(t, 30*time.Second, "a delivery to be taken", func() error {
			if status := harness.Post(t, ingress.Addr, "/hooks/answers", body, harness.Secret); status != http.StatusNoContent {
				return fmt.Errorf("it is answered %d", status)
			}
			return nil
		})
		s.AwaitInt(30*time.Second, 1, "select count(*) from answers where task_id = $1", id)
	}
	deliver("before")
	give(", the second")
	s.Exec("select pg_terminate_backend(pid) from pg_stat_activity where usename like 'catchwater_%'")
	deliver("after")
	for _, service := range []*harness.Service{ingress, processor, reconciler} {
		service.AwaitReady()
		service.Stop()
	}
}

// TestMigratingAsAnOwner has a role that owns its database and may create roles,
// and is no superuser, bring the schema and let the services' roles in, as on
// CloudNativePG or a hosted Postgres.
func TestMigratingAsAnOwner(t *testing.T) {
	t.Parallel()
	binaries, err := pgserver.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "catchwater-owner-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // Postgres may run as another user
		t.Fatal(err)
	}
	port, err := pgserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	server, err := pgserver.Start(t.Context(), pgserver.Options{
		Binaries: binaries, DataDir: filepath.Join(dir, "postgres"), Port: port, Settings: map[string]string{"fsync": "off"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	super, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(t.Context())
	const password = "no superuser, an owner"
	for _, statement := range []string{"create role owner login createrole password '" + password + "'", "create database catchwater owner owner"} {
		if _, err := super.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	passwords := t.TempDir()
	for _, role := range []string{"catchwater_ingress", "catchwater_processor", "catchwater_reconciler"} {
		if err := os.WriteFile(filepath.Join(passwords, role), []byte(role+"'s password"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // once more does nothing
		cmd := exec.Command(harness.Program(t, "catchwater"), "migrate",
			"--database-url", server.UserURL("catchwater", "owner", password), "--role-passwords", passwords)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for role, query := range map[string]string{
		"catchwater_ingress": "select from inbox", "catchwater_processor": "select from answers", "catchwater_reconciler": "select make_payload_partitions(9)",
	} {
		conn, err := pgx.Connect(t.Context(), server.UserURL("catchwater", role, role+"'s password"))
		if err != nil {
			t.Errorf("%s: %v", role, err)
			continue
		}
		if _, err := conn.Exec(t.Context(), query); err != nil {
			t.Errorf("%s: %s: %v", role, query, err)
		}
		_ = conn.Close(t.Context())
	}
}
