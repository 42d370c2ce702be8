package test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

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
