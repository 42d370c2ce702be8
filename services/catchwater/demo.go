package catchwater

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/catchwater/catchwater/pkg/source"
)

// The demonstration's sources.
const (
	demoSource       = "answers"
	demoMailSource   = "mail"
	demoScanInterval = 5 * time.Second
)

// demoConfig is the sources file of a system that was given none. What has
// not come after 20 seconds is asked for, so that the reconciler is seen at work.
const demoConfig = `# The demonstration's sources, whose providers are the simulator.
# catchwater up --config FILE runs with sources of your own instead.
sources:
  answers:
    preset: answerline
    secrets: [{file: %[2]q}]
    reconcile:
      base_url: http://127.0.0.1:%[1]d
      token: {file: %[3]q}
      after: 20s
      interval: 10s
  mail:
    preset: koltrix
    secrets: [{file: %[4]q}]
    reconcile:
      base_url: http://127.0.0.1:%[1]d
      token: {file: %[5]q}
      after: 20s
      interval: 10s
`

// demoConfigFor is the file for secrets, and for a simulator on a port.
func demoConfigFor(answers, mail demoSecrets, port int) string {
	return fmt.Sprintf(demoConfig, port, answers.signingFile, answers.apiKeyFile, mail.signingFile, mail.apiKeyFile)
}

// demoSecrets are what a demonstration's source and its provider share.
type demoSecrets struct {
	signing, apiKey         string
	signingFile, apiKeyFile string
}

// demoSecrets returns a source's secrets, made the first time.
func (f *folder) demoSecrets(source string) (s demoSecrets, err error) {
	key := source + "-api-key"
	s.signingFile, s.apiKeyFile = f.path("secrets", source), f.path("secrets", key)
	if s.signing, err = f.secret(source); err != nil {
		return s, err
	}
	s.apiKey, err = f.secret(key)
	return s, err
}

// configure settles the sources file, and the demonstration's secrets.
func (u *setup) configure() error {
	var err error
	if u.answers, err = u.folder.demoSecrets(demoSource); err != nil {
		return err
	}
	if u.mail, err = u.folder.demoSecrets(demoMailSource); err != nil {
		return err
	}
	if u.configPath = u.Config; u.configPath == "" {
		u.configPath = u.folder.path("catchwater.yaml")
		if err := os.WriteFile(u.configPath, []byte(demoConfigFor(u.answers, u.mail, u.SimulatorPort)), 0o644); err != nil {
			return fmt.Errorf("write the demonstration's sources file: %w", err)
		}
	}
	sources, err := source.Load(u.configPath)
	if err != nil {
		return err
	}
	for _, s := range sources.Sources {
		u.sources = append(u.sources, s.Name)
	}
	return nil
}

// checkSources finds out whether the services will take the sources file that
// was given, and can read every secret that it names.
func (c *upCommand) checkSources() error {
	if c.Config == "" {
		return nil
	}
	sources, err := source.Load(c.Config)
	if err != nil {
		return err
	}
	errs := []error{checkEffects(sources)}
	for _, s := range sources.Sources {
		_, err := source.OpenKeyring(s, os.Getenv, slog.New(slog.DiscardHandler))
		errs = append(errs, err)
		if s.Reconcile != nil {
			if _, err := source.ReadSecret(s.Reconcile.Token, os.Getenv); err != nil {
				errs = append(errs, fmt.Errorf("source %q: reconcile.token: %w", s.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}
