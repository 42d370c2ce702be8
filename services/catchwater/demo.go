package catchwater

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/answerline"
	"github.com/catchwater/catchwater/pkg/source"
	"github.com/catchwater/catchwater/pkg/submit"
)

const (
	demoSource       = "answers"
	demoScanInterval = 5 * time.Second
)

// demoConfig is the sources file of a system that was given none. A result that
// has not come after 20 seconds is asked for, so that the reconciler is seen at
// work.
const demoConfig = `# The demonstration source, whose provider is the simulator.
# catchwater up --config FILE runs with sources of your own instead.
sources:
  answers:
    preset: answerline
    secrets: [{file: %q}]
    reconcile:
      base_url: http://127.0.0.1:%d
      token: {file: %q}
      after: 20s
      interval: 10s
`

// configure settles the sources file, and the demonstration source's secrets.
func (u *setup) configure() error {
	var err error
	if u.secret, err = u.folder.secret(demoSource); err != nil {
		return err
	}
	if u.apiKey, err = u.folder.secret(demoSource + "-api-key"); err != nil {
		return err
	}
	if u.configPath = u.Config; u.configPath != "" {
		return nil
	}
	u.configPath = u.folder.path("catchwater.yaml")
	text := fmt.Sprintf(demoConfig, u.folder.path("secrets", demoSource), u.SimulatorPort, u.folder.path("secrets", demoSource+"-api-key"))
	if err := os.WriteFile(u.configPath, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the demonstration's sources file: %w", err)
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
	var errs []error
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

// demoFaults make a little go wrong, as it does: some deliveries come twice,
// some never.
const demoFaults = `{"delivery":{"drop":0.02,"duplicate":0.05},"api":{"failRatio":0.05}}`

// demonstrate submits tasks to the simulator until ctx ends.
func (u *setup) demonstrate(ctx context.Context, log *slog.Logger) {
	if u.Rate == 0 || u.Config != "" {
		return
	}
	pool, err := pgxpool.New(ctx, u.database.url())
	if err != nil {
		log.Error("the demonstration cannot run", slog.Any("error", err))
		return
	}
	defer pool.Close()
	base := "http://" + local(u.SimulatorPort)
	submitter := submit.Submitter{
		DB: pool, Source: demoSource, Creator: &answerline.Client{BaseURL: base, Key: u.apiKey, Timeout: 5 * time.Second},
	}
	began := time.Now()
	ticker := time.NewTicker(time.Duration(float64(time.Second) / u.Rate))
	defer ticker.Stop()
	faultsSet := false
	for n := 1; ; n++ {
		faultsSet = faultsSet || setFaults(ctx, base)
		key := fmt.Sprintf("demo-%s-%d", began.Format("20060102-150405"), n)
		_, err := submitter.Submit(ctx, answerline.Create{TaskType: "answer", IdempotencyKey: key})
		if err != nil && ctx.Err() == nil {
			log.Warn("the demonstration could not submit a task", slog.String("key", key), slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func setFaults(ctx context.Context, base string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, base+"/control/faults", bytes.NewBufferString(demoFaults))
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false // not listening yet
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusNoContent
}
