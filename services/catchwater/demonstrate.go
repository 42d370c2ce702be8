package catchwater

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/answerline"
	"github.com/catchwater/catchwater/pkg/httpapi"
	"github.com/catchwater/catchwater/pkg/messages"
	"github.com/catchwater/catchwater/pkg/submit"
)

// The demonstration's faults make a little go wrong, as it does: some deliveries
// come twice, some never, and events about messages out of order.
const (
	demoFaults     = `{"delivery":{"drop":0.02,"duplicate":0.05},"api":{"failRatio":0.05}}`
	demoMailFaults = `{"delivery":{"drop":0.02,"duplicate":0.05,"disorderMs":3000}}`
)

// demoTimeout bounds a call to the simulator.
const demoTimeout = 5 * time.Second

// demonstrate submits tasks and sends messages through the simulator until ctx
// ends.
func (u *setup) demonstrate(ctx context.Context, log *slog.Logger) {
	if u.Config != "" || u.Rate == 0 && u.MailRate == 0 {
		return
	}
	pool, err := pgxpool.New(ctx, u.database.url())
	if err != nil {
		log.Error("the demonstration cannot run", slog.Any("error", err))
		return
	}
	defer pool.Close()
	var running sync.WaitGroup
	running.Go(func() { u.submitTasks(ctx, pool, log) })
	running.Go(func() { u.sendMail(ctx, pool, log) })
	running.Wait()
}

// api is a client for the simulator, by the key of one of its providers.
func (u *setup) api(key string) *httpapi.Client {
	return &httpapi.Client{BaseURL: "http://" + local(u.SimulatorPort), Key: key, Timeout: demoTimeout}
}

func (u *setup) submitTasks(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) {
	api := u.api(u.answers.apiKey)
	submitter := submit.Submitter{DB: pool, Source: demoSource, Creator: (*answerline.Client)(api)}
	began := time.Now().Format("20060102-150405")
	atRate(ctx, u.Rate, api, "/control/faults", demoFaults, func(n int) {
		key := fmt.Sprintf("demo-%s-%d", began, n)
		_, err := submitter.Submit(ctx, answerline.Create{TaskType: "answer", IdempotencyKey: key})
		if err != nil && ctx.Err() == nil {
			log.Warn("the demonstration could not submit a task", slog.String("key", key), slog.Any("error", err))
		}
	})
}

// sendMail sends messages and registers each once its id is known, which its
// first event may well be before.
func (u *setup) sendMail(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) {
	api := u.api(u.mail.apiKey)
	began := time.Now().Format("15:04:05")
	atRate(ctx, u.MailRate, api, "/control/koltrix/faults", demoMailFaults, func(n int) {
		id, err := sendMessage(ctx, api, n, began)
		if err == nil {
			_, err = messages.Register(ctx, pool, demoMailSource, []string{id})
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("the demonstration could not send a message", slog.String("message_id", id), slog.Any("error", err))
		}
	})
}

// sendMessage sends one to a reader or, every fifth, to two, and returns its id.
func sendMessage(ctx context.Context, api *httpapi.Client, n int, began string) (id string, err error) {
	to := []string{fmt.Sprintf("reader%d@example.com", n)}
	if n%5 == 0 {
		to = append(to, fmt.Sprintf("reader%d@example.org", n))
	}
	body, err := json.Marshal(map[string]any{
		"to": to, "from": "news@sender.example", "subject": fmt.Sprintf("News %d of %s", n, began), "category": "news",
	})
	if err != nil {
		return "", err
	}
	answer, err := api.Send(ctx, http.MethodPost, "/v1/messages", body)
	if err != nil {
		return "", fmt.Errorf("send a message: %w", err)
	}
	var sent struct {
		ID string `json:"message_id"`
	}
	if err := json.Unmarshal(answer, &sent); err != nil || sent.ID == "" {
		return "", fmt.Errorf("send a message: the answer %.100q has no message_id", answer)
	}
	return sent.ID, nil
}

// atRate sets faults as soon as the simulator listens, and then does something so
// many times a second until ctx ends, counted from 1. At a rate of 0 it does
// neither.
func atRate(ctx context.Context, rate float64, api *httpapi.Client, faultsPath, faults string, do func(n int)) {
	if rate == 0 {
		return
	}
	const retry = 100 * time.Millisecond
	for {
		if _, err := api.Send(ctx, http.MethodPut, faultsPath, []byte(faults)); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
	}
	ticker := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticker.Stop()
	for n := 1; ; n++ {
		do(n)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
