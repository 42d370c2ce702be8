package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopLeftover ends a server that still runs on a data folder whose parent was
// killed where the system does not tell children.
//
// The process id that a killed server leaves may belong to anybody by now. Only
// a server on this very folder is stopped; and when the process is no server at
// all, the file goes, since Postgres would take any process of its own user for
// the one that holds the folder. In all other cases Postgres judges for itself.
func stopLeftover(ctx context.Context, dir string) error {
	pidFile := filepath.Join(dir, "postmaster.pid")
	data, _ := os.ReadFile(pidFile) // without one, none runs
	line, _, _ := strings.Cut(string(data), "\n")
	pid, _ := strconv.Atoi(strings.TrimSpace(line))
	if pid <= 1 {
		return nil
	}
	command := commandLine(pid)
	switch {
	case command == "":
		return nil
	case !strings.Contains(command, "postgres"):
		if err := os.Remove(pidFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the lock file of a server that has ended: %w", err)
		}
		return nil
	case !strings.Contains(command+" ", " -D "+dir+" "):
		return nil
	}
	_ = syscall.Kill(pid, fastStop)
	deadline := time.After(stopTimeout)
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("another Postgres (process %d) runs on %s and does not stop: stop it, or name another data folder", pid, dir)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// commandLine returns a process's program and arguments, and nothing when there
// is no such process or the system does not tell.
func commandLine(pid int) string {
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil { // Linux, where small images have no ps
		return string(bytes.TrimSpace(bytes.ReplaceAll(args, []byte{0}, []byte{' '})))
	}
	args, _ = exec.Command("ps", "-ww", "-o", "args=", "-p", strconv.Itoa(pid)).Output() // fails when there is none
	return string(bytes.TrimSpace(args))
}
