// Package harness runs whole Catchwater systems for tests: a Postgres cluster,
// a NATS server and the services, each a process of its own that can be stopped
// and killed, and nothing inside them that knows of tests.
package harness

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Process is a program that was started, and can be started again.
type Process struct {
	t       testing.TB
	name    string
	program string
	args    []string
	env     []string
	log     *os.File
	cmd     *exec.Cmd
	done    chan struct{}
	err     error
}

// newProcess starts a program whose log is shown when the test fails.
func newProcess(t testing.TB, name, dir, program string, args, env []string) *Process {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{t: t, name: name, program: program, args: args, env: env, log: log}
	p.Start()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("last of the log of %s:\n%s", name, p.tail())
		}
		_ = log.Close()
	})
	return p
}

// Start runs the program, again after it has ended. The thread that starts it
// stays, since the kernel takes its end for the parent's.
func (p *Process) Start() {
	p.t.Helper()
	cmd := exec.Command(p.program, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(done)
		}
	}()
	if err := <-started; err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
	p.cmd, p.done = cmd, done
}

// Kill ends the process as a crash would.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Pause stops the process in its tracks until Continue.
func (p *Process) Pause() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue lets a paused process go on.
func (p *Process) Continue() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Signal sends the process a signal.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is the status that the process ended with, once it has: -1 after a
// signal.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// stopWithin is how long a service has to stop: less than what an orchestrator
// usually gives it.
const stopWithin = 25 * time.Second

// Stop asks the process to end, and fails the test when it does not end well.
func (p *Process) Stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		if p.err != nil {
			p.t.Errorf("%s ended with %v", p.name, p.err)
		}
	case <-time.After(stopWithin):
		p.t.Errorf("%s did not stop within %s", p.name, stopWithin)
		p.Kill()
	}
}

// Log returns all that the process has written.
func (p *Process) Log() string {
	data, err := os.ReadFile(p.log.Name())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

func (p *Process) tail() string {
	const most = 4000
	log := []byte(p.Log())
	if len(log) > most {
		log = log[len(log)-most:]
		log = log[bytes.IndexByte(log, '\n')+1:]
	}
	return string(log)
}

// awaitReady returns when the readiness endpoint says so.
func (p *Process) awaitReady(healthAddr string) {
	p.t.Helper()
	Await(p.t, 20*time.Second, p.name+" to be ready", func() error {
		select {
		case <-p.done:
			p.t.Fatalf("%s ended at once: %v\n%s", p.name, p.err, p.tail())
		default:
		}
		response, err := http.Get("http://" + healthAddr + "/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz answers %s", response.Status)
		}
		return nil
	})
}

// Await polls until check returns nil, and fails the test with its last error.
func Await(t testing.TB, within time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s: %v", within, what, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}
