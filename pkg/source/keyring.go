package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/catchwater/catchwater/pkg/signature"
)

// MinSecret is the shortest key that is taken, in bytes: a shorter one could be
// found by trying.
const MinSecret = 16

// Keyring holds the secrets of one source, or of one effect, as they stand now.
// A file may hold several, one a line, which is how a secret is rotated by
// editing one file.
type Keyring struct {
	owner    string // whose secrets they are, for people
	places   []SecretRef
	verifier *signature.Verifier
	getenv   func(string) string
	log      *slog.Logger
	keys     atomic.Pointer[[]signature.Key]
	read     []placedText // what the places held when they were last looked at
}

// OpenKeyring reads a source's secrets. A secret that is missing, empty,
// undecodable or shorter than MinSecret is an error that names the source and
// the secret's place, never its value.
func OpenKeyring(s *Source, getenv func(string) string, log *slog.Logger) (*Keyring, error) {
	k := &Keyring{
		owner: fmt.Sprintf("source %q", s.Name), places: s.Secrets, verifier: s.Verifier, getenv: getenv,
		log: log.With(slog.String("source", s.Name)),
	}
	return k.open()
}

// OpenEffectKeyring reads the secrets that an effect's HTTP calls are signed
// with, under the same rules.
func OpenEffectKeyring(s *Source, e *Effect, getenv func(string) string, log *slog.Logger) (*Keyring, error) {
	verifier, err := presets["standard-webhooks"].scheme.Compile()
	if err != nil {
		panic(err) // the scheme is a constant
	}
	k := &Keyring{
		owner: fmt.Sprintf("source %q, effect %q", s.Name, e.Name), places: []SecretRef{e.HTTP.Secret}, verifier: verifier, getenv: getenv,
		log: log.With(slog.String("source", s.Name), slog.String("effect", e.Name)),
	}
	return k.open()
}

func (k *Keyring) open() (*Keyring, error) {
	if _, err := k.reload(); err != nil {
		return nil, err
	}
	return k, nil
}

// Sign puts on h the headers by which a receiver verifies the body, with one
// signature for each secret. What else is signed must be there already.
func (k *Keyring) Sign(h http.Header, body []byte, now time.Time) error {
	return k.verifier.Sign(h, body, k.Keys(), now)
}

// Keys returns the keys of all secrets.
func (k *Keyring) Keys() []signature.Key { return *k.keys.Load() }

// Watch looks for changed files until ctx ends. What is wrong with a changed
// file is logged, and the secrets stay as they were.
func (k *Keyring) Watch(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		switch changed, err := k.reload(); {
		case changed && err != nil:
			k.log.Error("the changed secrets cannot be used; the former ones stay in force", slog.Any("error", err))
		case changed:
			k.log.Info("secrets reloaded", slog.Int("secrets", len(k.Keys())))
		}
	}
}

// reload reads every place anew, and says whether anything had changed there.
func (k *Keyring) reload() (changed bool, err error) {
	var texts []placedText
	for _, ref := range k.places {
		text, err := readPlace(ref, k.getenv)
		texts = append(texts, placedText{ref, text, err})
	}
	former := k.read
	if slices.EqualFunc(texts, former, placedText.same) {
		return false, nil
	}
	k.read = texts
	var keys []signature.Key
	var errs []error
	for i, t := range texts {
		found, err := k.parse(t)
		keys = append(keys, found...)
		errs = append(errs, err)
		if known := former != nil && former[i].same(t); !known && strings.TrimSpace(t.text) != t.text {
			k.log.Info("white space around a secret was trimmed", slog.String("place", t.ref.String()))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return true, err
	}
	k.keys.Store(&keys)
	return true, nil
}

// placedText is what a secret's place holds.
type placedText struct {
	ref  SecretRef
	text string
	err  error
}

func (t placedText) same(other placedText) bool {
	return t.text == other.text && fmt.Sprint(t.err) == fmt.Sprint(other.err)
}

// parse reads the secrets at one place.
func (k *Keyring) parse(t placedText) ([]signature.Key, error) {
	if t.err != nil {
		return nil, fmt.Errorf("%s: %w", k.owner, t.err)
	}
	var keys []signature.Key
	for number, line := range strings.Split(t.text, "\n") {
		secret := strings.TrimSpace(line)
		if secret == "" {
			continue
		}
		place := t.ref.String()
		if number > 0 {
			place = fmt.Sprintf("%s, line %d", place, number+1)
		}
		key, err := k.verifier.ParseKey(secret)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", k.owner, place, err)
		}
		if key.Len() < MinSecret {
			return nil, fmt.Errorf("%s: %s: the secret has %d bytes; use at least %d", k.owner, place, key.Len(), MinSecret)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s: %s: the secret is empty", k.owner, t.ref)
	}
	return keys, nil
}

// maxSecretFile bounds a secret file, in bytes.
const maxSecretFile = 64 << 10

// readPlace returns what stands at a place; a link to a file is as good as a file.
func readPlace(ref SecretRef, getenv func(string) string) (string, error) {
	if ref.Env != "" {
		text := getenv(ref.Env)
		if text == "" {
			return "", fmt.Errorf("%s: it is not set, or empty", ref)
		}
		return text, nil
	}
	info, err := os.Stat(ref.File)
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	if !info.Mode().IsRegular() { // reading a pipe might never end
		return "", fmt.Errorf("%s: it is not a regular file", ref)
	}
	if info.Size() > maxSecretFile {
		return "", fmt.Errorf("%s: it has %d bytes, more than secrets have", ref, info.Size())
	}
	data, err := os.ReadFile(ref.File)
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	return string(data), nil
}

// ReadSecret returns the one secret at a place, such as an API's bearer key.
func ReadSecret(ref SecretRef, getenv func(string) string) (string, error) {
	text, err := readPlace(ref, getenv)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(text)
	if secret == "" || strings.ContainsAny(secret, "\n\r") {
		return "", fmt.Errorf("%s: it must hold one secret on one line", ref)
	}
	return secret, nil
}
