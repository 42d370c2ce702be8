package test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/test/harness"
)

// up is a `catchwater up` of its own.
type up struct {
	t    *testing.T
	data string
	cmd  *exec.Cmd
	out  stdout
}

// stdout is what an up writes, and whether its env file was there when it said
// that it stops.
type stdout struct {
	bytes.Buffer
	env             string
	stoppingWithEnv bool
}

func (o *stdout) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("catchwater: stopping")) {
		_, err := os.Stat(o.env)
		o.stoppingWithEnv = err == nil
	}
	return o.Buffer.Write(p)
}

func startUp(t *testing.T, data string, args ...string) *up {
	t.Helper()
	u := &up{t: t, data: data, out: stdout{env: filepath.Join(data, "env")}}
	u.cmd = exec.Command(harness.Program(t, "catchwater"), append([]string{"--data-dir", data, "up", "--ports=free", "--rate=20", "--mail-rate=10"}, args...)...)
	u.cmd.Stdout, u.cmd.Stderr = &u.out, &u.out
	u.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := u.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.cmd.Process.Kill() })
	return u
}

// env reads the file that scripts read.
func (u *up) env() map[string]string {
	file, err := os.Open(filepath.Join(u.data, "env"))
	if err != nil {
		return nil
	}
	defer file.Close()
	env := make(map[string]string)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "=")
		env[name] = strings.Trim(value, "'")
	}
	return env
}

// work is what both providers have brought about.
type work struct{ answers, messages, events int }

// work returns an error while the database is not up.
func (u *up) work() (w work, err error) {
	conn, err := pgx.Connect(u.t.Context(), u.env()["DATABASE_URL"])
	if err != nil {
		return w, err
	}
	defer conn.Close(context.Background())
	err = conn.QueryRow(u.t.Context(), `select (select count(*) from answers),
	  (select count(*) from messages where source = 'mail' and rank > 0), (select count(*) from message_events)`).Scan(&w.answers, &w.messages, &w.events)
	return w, err
}

// awaitWork returns when there is more than there was.
func (u *up) awaitWork(was work) (now work) {
	u.t.Helper()
	harness.Await(u.t, 60*time.Second, fmt.Sprintf("more than %+v", was), func() (err error) {
		if now, err = u.work(); err == nil && (now.answers <= was.answers || now.messages <= was.messages || now.events <= was.events) {
			err = fmt.Errorf("%+v", now)
		}
		return err
	})
	return now
}

// awaitLostBounce has a message bounce whose delivery is never sent, and returns
// when the system has found it out by asking.
func (u *up) awaitLostBounce() {
	u.t.Helper()
	simulator := harness.Simulator{T: u.t, Addr: strings.TrimPrefix(u.env()["SIMULATOR_URL"], "http://")}
	var made struct {
		ID string `json:"message_id"`
	}
	history := []any{"sent", map[string]any{"event": "bounced", "noDelivery": true}}
	if status := simulator.Call(http.MethodPost, "/control/koltrix/messages", map[string]any{"history": history}, &made); status != http.StatusCreated {
		u.t.Fatalf("the simulator answers %d", status)
	}
	conn, err := pgx.Connect(u.t.Context(), u.env()["DATABASE_URL"])
	if err != nil {
		u.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	const register = "insert into messages (source, message_id, registered_at) values ('mail', $1, now() - interval '1 hour')"
	if _, err := conn.Exec(u.t.Context(), register, made.ID); err != nil {
		u.t.Fatal(err)
	}
	harness.Await(u.t, 60*time.Second, "the bounce", func() error {
		var status, origin string
		err := conn.QueryRow(u.t.Context(), `select m.status, i.origin from messages m
		  join inbox i on i.source = m.source and i.subject = m.message_id and i.event_type = 'message.bounced'
		  where m.message_id = $1`, made.ID).Scan(&status, &origin)
		if err == nil && (status != "bounced" || origin != "reconcile") {
			err = fmt.Errorf("it is %s by %s", status, origin)
		}
		return err
	})
}

// get asks for a page, with a bearer key where one is given.
func (u *up) get(page, key string, want int) {
	u.t.Helper()
	request, err := http.NewRequestWithContext(u.t.Context(), http.MethodGet, page, nil)
	if err != nil {
		u.t.Error(err)
		return
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		u.t.Error(err)
		return
	}
	defer response.Body.Close()
	if response.StatusCode != want {
		u.t.Errorf("%s answers %d, want %d", page, response.StatusCode, want)
	}
}

// left returns the command lines of processes that have to do with the folder.
func (u *up) left() []string {
	var lines []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte(u.data)) {
			lines = append(lines, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return lines
}

func (u *up) awaitNothingLeft() {
	u.t.Helper()
	harness.Await(u.t, 20*time.Second, "no process to be left", func() error {
		if left := u.left(); len(left) > 0 {
			return fmt.Errorf("there are %q", left)
		}
		return nil
	})
}

// TestUp goes through a system's days: started, looked at, stopped, started
// again, killed, started again.
func TestUp(t *testing.T) {
	t.Parallel()
	parent, err := os.MkdirTemp("", "catchwater-up-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o755); err != nil { // Postgres may run as another user
		t.Fatal(err)
	}
	data := filepath.Join(parent, "data")

	first := startUp(t, data)
	done := first.awaitWork(work{5, 5, 15})
	first.awaitLostBounce()
	for _, name := range []string{"DATABASE_URL", "NATS_URL", "INGRESS_URL", "SIMULATOR_URL", "DEMO_SECRET_FILE", "DEMO_MAIL_SECRET_FILE"} {
		if first.env()[name] == "" {
			t.Errorf("the env file has no %s", name)
		}
	}
	for _, service := range []string{"INGRESS", "PROCESSOR", "RECONCILER", "SIMULATOR"} {
		first.get(first.env()[service+"_HEALTH_URL"]+"/livez", "", http.StatusOK)
	}
	for variable, path := range map[string]string{"DEMO_API_KEY_FILE": "/v1/async/task/none", "DEMO_MAIL_API_KEY_FILE": "/v1/messages/none"} {
		key, err := os.ReadFile(first.env()[variable])
		if err != nil {
			t.Errorf("%s: %v", variable, err)
		}
		first.get(first.env()["SIMULATOR_URL"]+path, string(bytes.TrimSpace(key)), http.StatusNotFound) // not 401
	}
	if out, err := exec.Command(harness.Program(t, "catchwater"), "--data-dir", data, "inbox", "list", "--limit", "3").CombinedOutput(); err != nil || !bytes.Contains(out, []byte("processed")) {
		t.Errorf("inbox list: %v %s", err, out)
	}
	out, err := exec.Command(harness.Program(t, "catchwater"), "--data-dir", data, "up", "--ports=free").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("another catchwater runs on")) {
		t.Errorf("a second one on the same folder: %v %s", err, out)
	}
	if err := first.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := first.cmd.Wait(); err != nil {
		t.Errorf("Ctrl-C ended it with %v:\n%s", err, first.out.String())
	}
	first.awaitNothingLeft()
	if first.out.stoppingWithEnv { // a second Ctrl-C would have left it
		t.Error("the env file was there while it stopped")
	}

	second := startUp(t, data)
	done = second.awaitWork(done)
	if err := second.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = second.cmd.Wait()
	second.awaitNothingLeft()

	third := startUp(t, data)
	third.awaitWork(done)
	if err := third.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := third.cmd.Wait(); err != nil {
		t.Errorf("SIGTERM ended it with %v:\n%s", err, third.out.String())
	}
	third.awaitNothingLeft()
}

func TestUpNamesTheFlagOfATakenPort(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := fmt.Sprint(taken.Addr().(*net.TCPAddr).Port)
	out, err := exec.Command(harness.Program(t, "catchwater"), "--data-dir", t.TempDir(), "up", "--ingress-port", port).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--ingress-port") || !strings.Contains(string(out), "--ports=free") {
		t.Errorf("got %v %s", err, out)
	}
	out, err = exec.Command(harness.Program(t, "catchwater"), "--data-dir", t.TempDir(), "up", "--ports=free", "--ingress-port", port).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "leave the flag out") || strings.Contains(string(out), "run with --ports=free") {
		t.Errorf("with free ports: %v %s", err, out)
	}
}
