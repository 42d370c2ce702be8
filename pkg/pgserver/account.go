package pgserver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

const (
	fastStop  = syscall.SIGINT
	quickStop = syscall.SIGQUIT
)

// account is the user that the server runs as; the zero account is our own.
type account struct {
	name     string
	uid, gid uint32
	other    bool
}

// serverAccount returns our own user, or for root one without privileges.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return account{}, fmt.Errorf("read the ids of user %s: %w", name, err)
		}
		return account{name: name, uid: uint32(uid), gid: uint32(gid), other: true}, nil
	}
	return account{}, errors.New("Postgres refuses to run as root, and there is neither a user postgres nor nobody to run it as: make one, or run this as another user")
}

// fallbackParent holds the data of clusters whose own folder the server's user
// cannot reach.
const fallbackParent = "/var/lib/catchwater"

// reachable returns the data folder itself, or, when the server's user cannot
// reach it (a clone under /root, say), one that stands for it elsewhere.
func (a account) reachable(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the data folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("make the data folder's parent: %w", err)
	}
	if !a.other || a.canReach(filepath.Dir(dir)) {
		return dir, nil
	}
	sum := sha256.Sum256([]byte(dir))
	elsewhere := filepath.Join(fallbackParent, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(fallbackParent, 0o755); err != nil {
		return "", fmt.Errorf("make a data folder that user %s can reach: %w", a.name, err)
	}
	return elsewhere, nil
}

// canReach reports whether the account may pass through a folder and all those
// above it.
func (a account) canReach(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		mode := info.Mode().Perm()
		switch {
		case ok && stat.Uid == a.uid && mode&0o100 != 0:
		case ok && stat.Gid == a.gid && mode&0o010 != 0:
		case mode&0o001 != 0:
		default:
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// mkdir makes a folder that the account owns.
func (a account) mkdir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	return a.own(dir)
}

// write makes a file that the account alone can read.
func (a account) write(path, text string) error {
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return a.own(path)
}

func (a account) own(path string) error {
	if !a.other {
		return nil
	}
	if err := os.Chown(path, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("give %s to user %s: %w", path, a.name, err)
	}
	return nil
}

// apply makes a command run as the account, in a folder it can be in, and in a
// process group of its own: Ctrl-C in the terminal is for us to pass on.
func (a account) apply(cmd *exec.Cmd, dir string) {
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a.other {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	dieWithParent(cmd.SysProcAttr)
}

// process is a command that has been started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // readable once done is closed
}

// start runs a command. The thread that starts it is kept until it ends, since
// the kernel takes a thread's end for the parent's.
func (a account) start(cmd *exec.Cmd, dir string, log io.Writer) (*process, error) {
	a.apply(cmd, dir)
	cmd.Stdout, cmd.Stderr = log, log
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}
