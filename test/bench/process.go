package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/catchwater/catchwater/pkg/pgserver"
)

// build makes the programs that are measured.
func (b *bench) build(ctx context.Context) error {
	if err := os.MkdirAll(b.bin, 0o755); err != nil {
		return err
	}
	_, file, _, _ := runtime.Caller(0)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", b.bin+"/",
		"github.com/catchwater/catchwater/services/ingress/cmd/ingress",
		"github.com/catchwater/catchwater/services/processor/cmd/processor",
		"github.com/nats-io/nats-server/v2")
	cmd.Dir = filepath.Dir(filepath.Dir(file))
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, output)
	}
	return nil
}

// program is a running process.
type program struct {
	cmd          *exec.Cmd
	addr, health string
}

func (p *program) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

// run starts a program from bin, or this one when it is named by its path.
func (b *bench) run(name string, args, env []string) (*program, error) {
	path := name
	if !filepath.IsAbs(name) {
		path = filepath.Join(b.bin, name)
	}
	log, err := os.Create(filepath.Join(b.dir, filepath.Base(name)+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return &program{cmd: cmd}, nil
}

// service starts a service and waits until it is ready.
func (b *bench) service(name string, env ...string) (*program, error) {
	port, err := pgserver.FreePort()
	if err != nil {
		return nil, err
	}
	health, err := pgserver.FreePort()
	if err != nil {
		return nil, err
	}
	addr, healthAddr := fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("127.0.0.1:%d", health)
	p, err := b.run(name, nil, append([]string{
		"DATABASE_URL=" + b.postgres.UserURL("postgres", "catchwater_"+name, rolePassword), "NATS_URL=" + b.natsURL,
		"CATCHWATER_CONFIG=" + b.config, "CATCHWATER_LISTEN=" + addr, "CATCHWATER_HEALTH_LISTEN=" + healthAddr,
		"ANSWERLINE_SECRET=" + secret, "CATCHWATER_LOG_LEVEL=warn", "CATCHWATER_DRAIN_DELAY=0s",
	}, env...))
	if err != nil {
		return nil, err
	}
	p.addr, p.health = addr, healthAddr
	return p, await(func() bool {
		response, err := http.Get("http://" + healthAddr + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, name+" to be ready")
}

func await(done func() bool, what string) error {
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited in vain for %s", what)
		}
	}
	return nil
}

// resident is the process's resident memory in MB.
func (p *program) resident() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0 // not on this system
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kb, _ := strconv.Atoi(fields[1])
			return kb >> 10
		}
	}
	return 0
}

// cpu is the processor time that the process has used.
func (p *program) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0 // not on this system
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // what follows the name, which may hold anything
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * (time.Second / 100) // the kernel's ticks
}

func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func (b *bench) version(ctx context.Context) string {
	version := ""
	if err := b.pool.QueryRow(ctx, "select 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)").Scan(&version); err != nil {
		return "PostgreSQL"
	}
	return version
}
