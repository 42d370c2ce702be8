package pgserver

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func start(t *testing.T, dir string) *Server {
	t.Helper()
	binaries, err := FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	server, err := Start(t.Context(), Options{Binaries: binaries, DataDir: dir, Settings: map[string]string{"fsync": "off"}, Log: &log})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	t.Cleanup(server.Kill)
	return server
}

// dataDir is a folder that the server's user can reach.
func dataDir(t *testing.T) string {
	t.Helper()
	parent, err := os.MkdirTemp("", "pgserver-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(parent, "data")
}

func query(t *testing.T, server *Server, statements ...string) int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	last := len(statements) - 1
	for _, sql := range statements[:last] {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	if err := conn.QueryRow(t.Context(), statements[last]).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDataOutlivesStopAndCrash(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	server := start(t, dir)
	query(t, server, "create table n (n int)", "insert into n values (7)", "select 1")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	server = start(t, dir)
	query(t, server, "select n from n")
	server.Kill()
	server = start(t, dir)
	if n := query(t, server, "select n from n"); n != 7 {
		t.Errorf("n is %d, want 7", n)
	}
}

// TestMain lets the test binary play the parent that is killed.
func TestMain(m *testing.M) {
	dir := os.Getenv("PGSERVER_TEST_PARENT")
	if dir == "" {
		os.Exit(m.Run())
	}
	binaries, err := FindBinaries()
	if err == nil {
		var server *Server
		if server, err = Start(context.Background(), Options{Binaries: binaries, DataDir: dir}); err == nil {
			_, _ = os.Stdout.WriteString(strconv.Itoa(server.Pid()) + "\n")
			select {}
		}
	}
	_, _ = os.Stderr.WriteString(err.Error())
	os.Exit(1)
}

func TestServerDiesWithAKilledParent(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "PGSERVER_TEST_PARENT="+dataDir(t))
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 32)
	n, _ := out.Read(line)
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for deadline := time.Now().Add(20 * time.Second); syscall.Kill(pid, 0) == nil; <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("postgres (process %d) outlived its parent", pid)
		}
	}
}

func TestAFolderThatIsNotACluster(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	binaries, err := FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{Binaries: binaries, DataDir: dir}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("got %v, want an error that says the folder is not empty", err)
	}
}
