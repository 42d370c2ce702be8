package source

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/catchwater/catchwater/pkg/signature"
)

const (
	oldSecret = "the-old-secret-of-16"
	newSecret = "the-new-secret-of-16"
)

// journal is a log to look into.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// take returns what was logged since it was last taken.
func (j *journal) take() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.text.Reset()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func noEnv(string) string { return "" }

// secretFile is a file that can be put in place of its former self at once.
type secretFile struct {
	t    *testing.T
	path string
}

func newSecretFile(t *testing.T, text string) secretFile {
	t.Helper()
	f := secretFile{t, filepath.Join(t.TempDir(), "secret")}
	f.write(text)
	return f
}

func (f secretFile) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// accepts says whether a delivery signed with a secret verifies under the keys.
func accepts(t *testing.T, s *Source, keys []signature.Key, secret string) bool {
	t.Helper()
	key, err := s.Verifier.ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	h, now := http.Header{}, time.Unix(1_790_000_000, 0)
	if err := s.Verifier.Sign(h, []byte("{}"), []signature.Key{key}, now); err != nil {
		t.Fatal(err)
	}
	return s.Verifier.Verify(h, []byte("{}"), keys, now) == nil
}

func TestHardInput11_SecretsThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ preset, text, want string }{
		{"answerline", "", "the secret is empty"},
		{"answerline", " \n\t\n", "the secret is empty"},
		{"answerline", "fifteen-bytes--", "the secret has 15 bytes; use at least 16"},
		{"answerline", oldSecret + "\n\nfifteen-bytes--\n", "line 3: the secret has 15 bytes; use at least 16"},
		{"standard-webhooks", "whsec_this*is*not*base64", "the secret is not base64"},
		{"standard-webhooks", "whsec_", "the secret is empty"},
		{"standard-webhooks", "whsec_c2hvcnQ=", "the secret has 5 bytes; use at least 16"},
		{"answerline", strings.Repeat("x", maxSecretFile+1), "more than secrets have"},
	} {
		f := newSecretFile(t, c.text)
		s := parseOne(t, "preset: "+c.preset, "secrets: [{file: "+f.path+"}]")
		_, err := OpenKeyring(s, noEnv, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Errorf("%.40q was taken", c.text)
			continue
		}
		for _, want := range []string{`source "mine": `, f.path, c.want} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %q is not said in: %v", c.text, want, err)
			}
		}
		for _, line := range strings.Fields(c.text) {
			if strings.Contains(err.Error(), line) {
				t.Errorf("the error tells the secret: %.200v", err)
			}
		}
	}
}

func TestPlacesWithoutSecretsAreAllNamed(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none")
	s := parseOne(t, "preset: answerline", "secrets: [{env: MINE_SECRET}, {file: "+missing+"}]")
	_, err := OpenKeyring(s, noEnv, slog.New(slog.DiscardHandler))
	if err == nil || strings.Count(err.Error(), `source "mine"`) != 2 ||
		!strings.Contains(err.Error(), "environment variable MINE_SECRET: it is not set, or empty") || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v", err)
	}
}

func TestHardInput11_WhiteSpaceIsTrimmedAndSaid(t *testing.T) {
	t.Parallel()
	var log journal
	f := newSecretFile(t, oldSecret+"\r\n")
	s := parseOne(t, "preset: answerline", "secrets: [{file: "+f.path+"}, {env: E}]")
	k, err := OpenKeyring(s, func(string) string { return newSecret }, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	if !accepts(t, s, k.Keys(), oldSecret) || !accepts(t, s, k.Keys(), newSecret) {
		t.Error("one of the secrets is not in force")
	}
	said := log.take()
	if strings.Count(said, "trimmed") != 1 || !strings.Contains(said, f.path) || !strings.Contains(said, "source=mine") || strings.Contains(said, oldSecret) {
		t.Errorf("logged: %s", said)
	}
}

// TestHardInput12_RotationByEditingOneFile goes on with each change, in the
// time of a bubble, so that every look at the file is accounted for.
func TestHardInput12_RotationByEditingOneFile(t *testing.T) {
	t.Parallel()
	f := newSecretFile(t, oldSecret)
	other := newSecretFile(t, "another-secret-of-16\n")
	s := parseOne(t, "preset: answerline", "secrets: [{file: "+f.path+"}, {file: "+other.path+"}]")
	synctest.Test(t, func(t *testing.T) {
		var log journal
		k, err := OpenKeyring(s, noEnv, log.logger())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go k.Watch(ctx, time.Second)
		log.take()
		for _, step := range []struct {
			what     string
			change   func()
			old, new bool
			said     string // one line with this, or none
		}{
			{"nothing", func() {}, true, false, ""},
			{"both", func() { f.write(oldSecret + "\n" + newSecret) }, true, true, "secrets reloaded"},
			{"a slip", func() { f.write("short") }, true, true, "the former ones stay in force"},
			{"the file gone", func() { os.Remove(f.path) }, true, true, "the former ones stay in force"},
			{"a file in writing", func() { f.write("") }, true, true, "the former ones stay in force"},
			{"the new one", func() { f.write(newSecret) }, false, true, "secrets reloaded"},
		} {
			step.change()
			<-time.After(10 * time.Second) // of the bubble
			synctest.Wait()
			if old, new := accepts(t, s, k.Keys(), oldSecret), accepts(t, s, k.Keys(), newSecret); old != step.old || new != step.new {
				t.Errorf("%s: the old one %v, the new one %v", step.what, old, new)
			}
			said := log.take()
			if lines := strings.Count(said, "\n"); !strings.Contains(said, step.said) || (lines > 0) != (step.said != "") || lines > 1 {
				t.Errorf("%s: logged:\n%s", step.what, said)
			}
		}
	})
}

func TestReadSecret(t *testing.T) {
	t.Parallel()
	f := newSecretFile(t, "key-1\n")
	if got, err := ReadSecret(SecretRef{File: f.path}, noEnv); err != nil || got != "key-1" {
		t.Errorf("a file: %q, %v", got, err)
	}
	if got, err := ReadSecret(SecretRef{Env: "K"}, func(name string) string { return name + "-2 " }); err != nil || got != "K-2" {
		t.Errorf("the environment: %q, %v", got, err)
	}
	for _, text := range []string{"", "\n", "key-1\nkey-2\n"} {
		f.write(text)
		if got, err := ReadSecret(SecretRef{File: f.path}, noEnv); err == nil || !strings.Contains(err.Error(), f.path) || strings.Contains(err.Error(), "key-1") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := ReadSecret(SecretRef{Env: "K"}, noEnv); err == nil || !strings.Contains(err.Error(), "environment variable K") {
		t.Errorf("got %v", err)
	}
}

// TestASecretIsAFile has a pipe, from which nobody would ever read anything, and a
// link to a link to a file, as Kubernetes mounts secrets.
func TestASecretIsAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	mounted := newSecretFile(t, "key-1\n")
	if err := errors.Join(syscall.Mkfifo(path("pipe"), 0o600), os.Symlink(mounted.path, path("data")), os.Symlink("data", path("link"))); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadSecret(SecretRef{File: path("link")}, noEnv); err != nil || got != "key-1" {
		t.Errorf("a link: %q, %v", got, err)
	}
	for _, name := range []string{path("pipe"), dir} {
		if _, err := ReadSecret(SecretRef{File: name}, noEnv); err == nil || !strings.Contains(err.Error(), name+": it is not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
