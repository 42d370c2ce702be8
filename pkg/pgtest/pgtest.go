// Package pgtest gives each test a database of its own on a real, throwaway
// Postgres. The server is started with the first one and ends with the test
// binary, however that ends.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/migrate"
	"github.com/catchwater/catchwater/pkg/pgserver"
)

// rolePassword is what RoleURL logs in with.
const rolePassword = "for-tests-only"

// Roles are the services' own.
var Roles = []string{"catchwater_ingress", "catchwater_processor", "catchwater_reconciler"}

// cluster is the server of this test binary.
var cluster = struct {
	once    sync.Once
	err     error
	server  *pgserver.Server
	lock    *os.File   // kept open, and so locked, while this process lives
	cloning sync.Mutex // a template takes one reader at a time
	made    atomic.Int64
}{}

const template = "catchwater_template"

func server(t testing.TB) *pgserver.Server {
	t.Helper()
	cluster.once.Do(func() { cluster.server, cluster.err = startCluster() })
	if cluster.err != nil {
		t.Fatalf("start a Postgres for tests: %v", cluster.err)
	}
	return cluster.server
}

func startCluster() (*pgserver.Server, error) {
	ctx := context.Background()
	binaries, err := pgserver.FindBinaries()
	if err != nil {
		return nil, err
	}
	dir, err := claimFolder()
	if err != nil {
		return nil, err
	}
	server, err := pgserver.Start(ctx, pgserver.Options{
		Binaries: binaries, DataDir: filepath.Join(dir, "data"),
		Settings: map[string]string{"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "max_connections": "300"},
	})
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "create database "+template); err != nil {
		return nil, err
	}
	if _, err := migrate.Up(ctx, server.URL(template)); err != nil {
		return nil, err
	}
	for _, role := range Roles {
		if _, err := conn.Exec(ctx, fmt.Sprintf("alter role %s password '%s'", role, rolePassword)); err != nil {
			return nil, err
		}
	}
	return server, nil
}

// claimFolder makes a folder for this test binary, and deletes those of test
// binaries that have ended. Who is alive holds a lock on its folder, however it
// ends.
func claimFolder() (string, error) {
	leftovers, _ := filepath.Glob(filepath.Join(os.TempDir(), "catchwater-pgtest-*")) // the pattern is well formed
	for _, leftover := range leftovers {
		if lock, err := lockFolder(leftover); err == nil {
			_ = os.RemoveAll(leftover)
			_ = lock.Close()
		}
	}
	// The lock is taken before the folder has the name that others look for.
	making, err := os.MkdirTemp("", "making-catchwater-pgtest-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(making, 0o755); err != nil { // Postgres may run as another user
		return "", err
	}
	if err := os.WriteFile(filepath.Join(making, "lock"), nil, 0o600); err != nil {
		return "", err
	}
	if cluster.lock, err = lockFolder(making); err != nil {
		return "", err
	}
	dir := filepath.Join(os.TempDir(), strings.TrimPrefix(filepath.Base(making), "making-"))
	return dir, os.Rename(making, dir)
}

// lockFolder takes a folder's lock, unless somebody has it.
func lockFolder(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

// New returns the superuser's URL of a fresh database with the current schema.
func New(t testing.TB) string {
	t.Helper()
	return create(t, " template "+template)
}

// Empty returns the superuser's URL of a fresh database with nothing in it.
func Empty(t testing.TB) string {
	t.Helper()
	return create(t, "")
}

func create(t testing.TB, from string) string {
	t.Helper()
	s := server(t)
	name := fmt.Sprintf("test_%d", cluster.made.Add(1))
	conn, err := pgx.Connect(context.Background(), s.URL("postgres"))
	if err != nil {
		t.Fatalf("connect to the Postgres for tests: %v", err)
	}
	defer conn.Close(context.Background())
	cluster.cloning.Lock()
	defer cluster.cloning.Unlock()
	if _, err := conn.Exec(context.Background(), "create database "+name+from); err != nil {
		t.Fatalf("make a database for the test: %v", err)
	}
	return s.URL(name)
}

// RoleURL returns the URL of the same database for a service's role.
func RoleURL(t testing.TB, databaseURL, role string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatalf("read the database URL: %v", err)
	}
	u.User = url.UserPassword(role, rolePassword)
	return u.String()
}

// Pool returns a pool on a database URL that is closed with the test.
func Pool(t testing.TB, databaseURL string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), databaseURL)
	if err != nil {
		t.Fatalf("open a pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}
