package catchwater

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/catchwater/catchwater/pkg/service"
)

// openFolder makes a data folder ready and keeps others from using it.
func openFolder(dir string) (*folder, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the data folder: %w", err)
	}
	f := &folder{root: root}
	for _, sub := range []string{"", "logs", "secrets"} {
		if err := os.MkdirAll(f.path(sub), 0o755); err != nil {
			return nil, fmt.Errorf("make the data folder: %w", err)
		}
	}
	if f.lock, err = os.OpenFile(f.path("lock"), os.O_CREATE|os.O_RDWR, private); err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	err = syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = f.lock.Close()
		return nil, fmt.Errorf("another catchwater runs on %s: stop it, or name another folder with --data-dir", root)
	} else if err != nil {
		_ = f.lock.Close()
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	return f, nil
}

func (f *folder) close() {
	f.removeEnv()
	_ = f.lock.Close()
}

// removeEnv removes the env file, which leads nowhere once the system stops.
func (f *folder) removeEnv() { _ = os.Remove(f.path("env")) }

// secret returns what a file under secrets/ holds, made the first time.
func (f *folder) secret(name string) (string, error) {
	path := f.path("secrets", name)
	data, err := os.ReadFile(path)
	if err == nil {
		return string(bytes.TrimSpace(data)), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	secret := "whsec_" + rand.Text()
	if err := os.WriteFile(path, []byte(secret+"\n"), private); err != nil {
		return "", fmt.Errorf("write a secret: %w", err)
	}
	return secret, nil
}

// logger returns a service's logger: to a file of its own while the screen
// shows a summary, else to standard error with the others'.
func (f *folder) logger(screen *screen, name string) (*slog.Logger, error) {
	var w io.Writer = os.Stderr
	if screen.live {
		file, err := os.OpenFile(f.path("logs", name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, fmt.Errorf("open a log: %w", err)
		}
		w = file // for as long as the process lives
	}
	return service.NewLogger(name, w, slog.LevelInfo), nil
}

// writeEnv writes what scripts need to follow the system.
func (u *setup) writeEnv() error {
	lines := []string{
		"DATABASE_URL=" + quote(u.database.url()),
		"NATS_URL=" + quote(u.broker.url()),
		"INGRESS_URL=" + quote("http://"+local(u.IngressPort)),
		"CATCHWATER_CONFIG=" + quote(u.configPath),
		"INGRESS_HEALTH_URL=" + quote("http://"+local(u.IngressHealthPort)),
		"PROCESSOR_HEALTH_URL=" + quote("http://"+local(u.ProcessorHealthPort)),
		"RECONCILER_HEALTH_URL=" + quote("http://"+local(u.ReconcilerHealthPort)),
	}
	if !u.NoSimulator {
		lines = append(lines, "SIMULATOR_URL="+quote("http://"+local(u.SimulatorPort)),
			"SIMULATOR_HEALTH_URL="+quote("http://"+local(u.SimulatorHealthPort)),
			"DEMO_SECRET_FILE="+quote(u.answers.signingFile), "DEMO_MAIL_SECRET_FILE="+quote(u.mail.signingFile),
			"DEMO_API_KEY_FILE="+quote(u.answers.apiKeyFile), "DEMO_MAIL_API_KEY_FILE="+quote(u.mail.apiKeyFile))
	}
	making := u.folder.path("env.making")
	if err := os.WriteFile(making, []byte(strings.Join(lines, "\n")+"\n"), private); err != nil {
		return fmt.Errorf("write the env file: %w", err)
	}
	if err := os.Rename(making, u.folder.path("env")); err != nil {
		return fmt.Errorf("write the env file: %w", err)
	}
	return nil
}

// quote makes a word that shells take as it is.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// unquote returns the text of a word that quote has made.
func unquote(word string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(word, "'"), "'"), `'\''`, "'")
}

// quoteIfNeeded is quote for what people read.
func quoteIfNeeded(s string) string {
	if strings.ContainsAny(s, " \t'\"\\$&;()") {
		return quote(s)
	}
	return s
}
