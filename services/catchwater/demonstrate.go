package catchwater

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/catchwater/catchwater/pkg/answerline"
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
	base := "http://" + local(u.SimulatorPort)
	var running sync.WaitGroup
	running.Go(func() { u.submitTasks(ctx, pool, base, log) })
	running.Go(func() { u.sendMail(ctx, pool, base, log) })
	running.Wait()
}

func (u *setup) submitTasks(ctx context.Context, pool *pgxpool.Pool, base string, log *slog.Logger) {
	submitter := submit.Submitter{
		DB: pool, Source: demoSource, Creator: &answerline.Client{BaseURL: base, Key: u.answers.apiKey, Timeout: demoTimeout},
	}
	began := time.Now().Format("20060102-150405")
	atRate(ctx, u.Rate, base+"/control/faults", demoFaults, func(n int) {
		key := fmt.Sprintf("demo-%s-%d", began, n)
		_, err := submitter.Submit(ctx, answerline.Create{TaskType: "answer", IdempotencyKey: key})
		if err != nil && ctx.Err() == nil {
			log.Warn("the demonstration could not submit a task", slog.String("key", key), slog.Any("error", err))
		}
	})
}

// sendMail sends messages and registers each once its id is known, which its
// first event may well be before.
func (u *setup) sendMail(ctx context.Context, pool *pgxpool.Pool, base string, log *slog.Logger) {
	began := time.Now().Format("15:04:05")
	atRate(ctx, u.MailRate, base+"/control/koltrix/faults", demoMailFaults, func(n int) {
		id, err := u.sendMessage(ctx, base, n, began)
		if err == nil {
			_, err = messages.Register(ctx, pool, demoMailSource, []string{id})
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("the demonstration could not send a message", slog.String("message_id", id), slog.Any("error", err))
		}
	})
}

// sendMessage sends one to a reader or, every fifth, to two, and returns its id.
func (u *setup) sendMessage(ctx context.Context, base string, n int, began string) (id string, err error) {
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
	answer, err := call(ctx, http.MethodPost, base+"/v1/messages", u.mail.apiKey, body)
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
func atRate(ctx context.Context, rate float64, faultsURL, faults string, do func(n int)) {
	if rate == 0 {
		return
	}
	const retry = 100 * time.Millisecond
	for {
		if _, err := call(ctx, http.MethodPut, faultsURL, "", []byte(faults)); err == nil {
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

// call makes a request with a JSON body and returns what it is answered, which is
// an error unless it is 2xx.
func call(ctx context.Context, method, url, key string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode < 200 || response.StatusCode > 299) {
		err = fmt.Errorf("answered %s: %.200s", response.Status, answer)
	}
	return answer, err
}
