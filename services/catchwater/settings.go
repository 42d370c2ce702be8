package catchwater

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/answerline"
	"github.com/catchwater/catchwater/pkg/postgres"
	"github.com/catchwater/catchwater/pkg/source"
)

// settings finds what an operator's command needs: in the environment, or else
// in the env file of a system that up runs.
type settings struct {
	dataDir string
	getenv  func(string) string
}

// get returns a setting and an error that says how to give it.
func (s *settings) get(name string) (string, error) {
	if value := s.getenv(name); value != "" {
		return value, nil
	}
	path := filepath.Join(s.dataDir, "env")
	file, err := os.Open(path)
	if err == nil {
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			if key, value, ok := strings.Cut(lines.Text(), "="); ok && key == name {
				return unquote(value), nil
			}
		}
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s is not set, and the settings of a running system cannot be read: %w", name, err)
	}
	return "", fmt.Errorf("%s is not set, and %s does not say it: set it, or name the folder of a running system with --data-dir", name, path)
}

// connect returns a connection to the system's database.
func (s *settings) connect(ctx context.Context) (*pgx.Conn, error) {
	url, err := s.get("DATABASE_URL")
	if err != nil {
		return nil, err
	}
	config, err := postgres.Config(url, s.getenv("CATCHWATER_DATABASE_PASSWORD_FILE"))
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to the database (is the system running?): %w", err)
	}
	return conn, nil
}

// source returns a source of the system's sources file.
func (s *settings) source(name string) (*source.Source, error) {
	path, err := s.get("CATCHWATER_CONFIG")
	if err != nil {
		return nil, err
	}
	sources, err := source.Load(path)
	if err != nil {
		return nil, err
	}
	found := sources.Lookup(name)
	if found == nil {
		var names []string
		for _, known := range sources.Sources {
			names = append(names, known.Name)
		}
		return nil, fmt.Errorf("there is no source %q in %s; name one with --source: %s", name, path, strings.Join(names, ", "))
	}
	return found, nil
}

// configured returns the sources file, or nothing where it is not known.
func (s *settings) configured() (sources *source.Config, path string) {
	path, err := s.get("CATCHWATER_CONFIG")
	if err != nil {
		return nil, ""
	}
	if sources, err = source.Load(path); err != nil {
		return nil, ""
	}
	return sources, path
}

// checkSource is for a source of which nothing was found: an error where the
// sources file is known and has no such source. Something may well be left of one
// that was taken out.
func (s *settings) checkSource(name string) error {
	if sources, _ := s.configured(); sources == nil || name == "" {
		return nil
	}
	_, err := s.source(name)
	return err
}

// checkStatus is the same for a status, of messages of any source.
func (s *settings) checkStatus(status string) error {
	sources, path := s.configured()
	if sources == nil || status == "" {
		return nil
	}
	var known []string
	for _, configured := range sources.Sources {
		if configured.Messages != nil {
			known = append(known, configured.Messages.Statuses()...)
		}
	}
	if slices.Sort(known); slices.Contains(known, status) {
		return nil
	}
	return fmt.Errorf("no source in %s gives the status %q; there are: %s", path, status, strings.Join(slices.Compact(known), ", "))
}

// reconciled returns a source of tasks whose provider can be asked.
func (s *settings) reconciled(name string) (*source.Source, error) {
	found, err := s.source(name)
	if err != nil {
		return nil, err
	}
	if found.Projection == source.ProjectionMessages {
		return nil, fmt.Errorf("source %q is of messages, not tasks: catchwater messages is about those", name)
	}
	if found.Reconcile == nil {
		return nil, fmt.Errorf("source %q has no reconcile section in the sources file, which says where its provider's API is", name)
	}
	return found, nil
}

// provider returns a client for the API of a source's provider.
func (s *settings) provider(name string) (*answerline.Client, error) {
	found, err := s.reconciled(name)
	if err != nil {
		return nil, err
	}
	key, err := source.ReadSecret(found.Reconcile.Token, s.getenv)
	if err != nil {
		return nil, fmt.Errorf("source %q: reconcile.token: %w", name, err)
	}
	return &answerline.Client{BaseURL: found.Reconcile.BaseURL, Key: key, Timeout: found.Reconcile.Timeout}, nil
}
