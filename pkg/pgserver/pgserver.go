// Package pgserver runs a private Postgres from the binaries found on the
// machine: for `catchwater up`, and for tests. It is not for production.
//
// The server refuses to run as root, so under root it is started as another
// user. It dies with its parent, however that ends, so that nothing is left
// behind.
package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options say what to run.
type Options struct {
	// Binaries is the folder with initdb and postgres; see FindBinaries.
	Binaries string
	// DataDir holds the database cluster. It is made when it is not there.
	DataDir string
	// Port on 127.0.0.1; 0 takes one that is free.
	Port int
	// Settings are passed to the server, such as fsync=off.
	Settings map[string]string
	// Log is where the server's own log goes; nil drops it.
	Log io.Writer
}

// Superuser is the name of the role that owns everything.
const Superuser = "catchwater"

// Server is a running Postgres.
type Server struct {
	process  *process
	port     int
	password string
	dataDir  string
}

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 15 * time.Second
)

// Start makes the cluster if need be, starts the server on it, and returns
// when it takes connections. A server that a killed parent left on the same
// folder is stopped first.
func Start(ctx context.Context, o Options) (*Server, error) {
	account, err := serverAccount()
	if err != nil {
		return nil, err
	}
	dir, err := account.reachable(o.DataDir)
	if err != nil {
		return nil, err
	}
	if err := stopLeftover(ctx, dir); err != nil {
		return nil, err
	}
	password, err := initialise(ctx, o.Binaries, dir, account)
	if err != nil {
		return nil, err
	}
	port := o.Port
	if port == 0 {
		if port, err = FreePort(); err != nil {
			return nil, err
		}
	}
	args := []string{"-D", dir, "-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(port), "-c", "unix_socket_directories="}
	for name, value := range o.Settings {
		args = append(args, "-c", name+"="+value)
	}
	process, err := account.start(exec.Command(filepath.Join(o.Binaries, "postgres"), args...), dir, o.Log)
	if err != nil {
		return nil, fmt.Errorf("start postgres on %s: %w", dir, err)
	}
	s := &Server{process: process, port: port, password: password, dataDir: dir}
	if err := s.await(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// await returns when the server takes connections.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.process.done:
			return fmt.Errorf("postgres on %s ended at once: %w; its log says why", s.dataDir, s.process.err)
		case <-ctx.Done():
			return fmt.Errorf("wait for postgres on %s: %w (last: %w)", s.dataDir, ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// URL is the connection string of a database, as the superuser.
func (s *Server) URL(database string) string { return s.UserURL(database, Superuser, s.password) }

// UserURL is the connection string of a database for a role.
func (s *Server) UserURL(database, user, password string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, password), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Port is where the server listens on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// DataDir is where the cluster stands: the folder asked for, or the one that
// stands for it where the server's user cannot reach that.
func (s *Server) DataDir() string { return s.dataDir }

// Pid is the server's process.
func (s *Server) Pid() int { return s.process.cmd.Process.Pid }

// Done is closed when the server has ended.
func (s *Server) Done() <-chan struct{} { return s.process.done }

// Stop ends the server in order, without waiting for its clients, and harder
// when that takes too long.
func (s *Server) Stop() error {
	for _, signal := range []os.Signal{fastStop, quickStop, os.Kill} {
		_ = s.process.cmd.Process.Signal(signal)
		select {
		case <-s.process.done:
			return nil
		case <-time.After(stopTimeout):
		}
	}
	return fmt.Errorf("stop postgres (process %d): it does not end", s.Pid())
}

// Kill ends the server as a crash would.
func (s *Server) Kill() {
	_ = s.process.cmd.Process.Signal(quickStop)
	select {
	case <-s.process.done:
	case <-time.After(stopTimeout):
		_ = s.process.cmd.Process.Kill()
		<-s.process.done
	}
}

// initialise makes the cluster when there is none, and returns its password.
// A cluster is made under another name and moved, so that a half-made one is
// never taken for one.
func initialise(ctx context.Context, binaries, dir string, account account) (string, error) {
	passwordFile := filepath.Join(dir, "superuser-password")
	if password, err := os.ReadFile(passwordFile); err == nil {
		return strings.TrimSpace(string(password)), nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the database password: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("look into the data folder: %w", err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty and not a cluster made by catchwater: name another folder", dir)
	}
	making := dir + ".making"
	if err := os.RemoveAll(making); err != nil {
		return "", fmt.Errorf("clear a half-made cluster: %w", err)
	}
	if err := account.mkdir(making); err != nil {
		return "", err
	}
	password := rand.Text()
	tmp := making + ".password"
	if err := account.write(tmp, password); err != nil {
		return "", err
	}
	defer os.Remove(tmp)
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, "initdb"), "-D", making, "-U", Superuser, "--pwfile="+tmp,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
	account.apply(cmd, making)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make a database cluster in %s: %w\n%s", dir, err, output)
	}
	if err := account.write(filepath.Join(making, filepath.Base(passwordFile)), password); err != nil {
		return "", err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("put the new cluster in place: %w", err)
	}
	if err := os.Rename(making, dir); err != nil {
		return "", fmt.Errorf("put the new cluster in place: %w", err)
	}
	return password, nil
}

// given are the ports that FreePort has handed out, which their askers may not
// listen on yet.
var given sync.Map

// FreePort returns a port on 127.0.0.1 that nobody listens on. It lies below
// those that systems give to outgoing connections, or one of these could take
// it before the asker does.
func FreePort() (int, error) {
	const first, last, tries = 10_240, 32_767, 200
	for range tries {
		port := first + mathrand.IntN(last-first+1)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		if listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %d tries between %d and %d all failed", tries, first, last)
}
