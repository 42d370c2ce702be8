package test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
	"github.com/catchwater/catchwater/test/harness"
)

func TestHardInput11_SecretsThatCannotBe(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	secret := filepath.Join(s.Dir, "secret")
	config := func(preset string) string {
		return fmt.Sprintf("sources:\n  mine:\n    preset: %s\n    secrets: [{file: %s}]\n", preset, secret)
	}
	write := func(text string) {
		if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ preset, text, want string }{
		{"answerline", "", "the secret is empty"},
		{"answerline", " \n", "the secret is empty"},
		{"standard-webhooks", "whsec_this*is*not*base64", "the secret is not base64"},
		{"answerline", "fifteen-bytes--", "the secret has 15 bytes"},
	} {
		write(c.text)
		s.Configure(config(c.preset))
		ingress := s.LaunchService("ingress")
		select {
		case <-ingress.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("%q: the ingress did not refuse to start", c.text)
		}
		log := ingress.Log()
		if !strings.Contains(log, c.want) || !strings.Contains(log, `source "mine"`) || !strings.Contains(log, secret) {
			t.Errorf("%q: the refusal does not name source, place and reason: %s", c.text, log)
		}
		if value := strings.TrimSpace(c.text); value != "" && strings.Contains(log, value) {
			t.Errorf("the refusal tells the secret: %s", log)
		}
	}
	write(harness.Secret + "\n")
	s.Configure(config("answerline"))
	ingress := s.StartService("ingress")
	expect(t, harness.Post(t, ingress.Addr, "/hooks/mine", harness.Task("t", "t", "COMPLETED", "2026-01-02T03:04:05Z"), harness.Secret), 204)
	if !strings.Contains(ingress.Log(), "trimmed") {
		t.Error("the log does not say that the secret was trimmed")
	}
}

func TestHardInput12_RotationWhileRunning(t *testing.T) {
	t.Parallel()
	const old, new = "the-old-secret-of-16", "the-new-secret-of-16"
	s := harness.New(t)
	secret := filepath.Join(s.Dir, "secret")
	write := func(text string) {
		if err := os.WriteFile(secret+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(secret+".new", secret); err != nil {
			t.Fatal(err)
		}
	}
	write(old)
	s.Configure(fmt.Sprintf("sources:\n  answers:\n    preset: answerline\n    secrets: [{file: %s}]\n", secret))
	ingress := s.StartService("ingress", "CATCHWATER_SECRET_INTERVAL=50ms")
	n := 0
	becomes := func(want int, secrets ...string) {
		t.Helper()
		harness.Await(t, 10*time.Second, fmt.Sprintf("deliveries signed with %v to be answered %d", secrets, want), func() error {
			n++
			if got := harness.Post(t, ingress.Addr, "/hooks/answers", harness.Task(fmt.Sprint("t", n), "k", "COMPLETED", "2026-01-02T03:04:05Z"), secrets...); got != want {
				return fmt.Errorf("answered %d", got)
			}
			return nil
		})
	}
	becomes(204, old)
	becomes(400, new)
	write(old + "\n" + new + "\n")
	becomes(204, new)
	becomes(204, old)
	becomes(204, new, old)
	write("short\n") // a slip: what was in force stays so
	harness.Await(t, 10*time.Second, "the log to complain", func() error {
		if !strings.Contains(ingress.Log(), "the changed secrets cannot be used") {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	becomes(204, old)
	write(new)
	becomes(400, old)
	becomes(204, new)
}

func TestHardInput15_AHundredTimesAtOnce(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingresses := []*harness.Service{s.StartService("ingress"), s.StartService("ingress")}
	s.StartService("processor")
	body := harness.Task("t1", "job", "COMPLETED", "2026-01-02T03:04:05Z")
	header := map[string]string{"Webhook-Signature": delivery.Sign([]string{harness.Secret}, time.Now(), body)}
	var posts sync.WaitGroup
	for n := range 100 {
		posts.Go(func() {
			status, err := harness.Send(ingresses[n%2].Addr, "/hooks/answers", body, header)
			if err != nil || status != 204 {
				t.Errorf("answered %d, %v", status, err)
			}
		})
	}
	posts.Wait()
	s.AwaitInt(10*time.Second, 1, answersCount)
	if n := s.Int("select count(*) from inbox"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestHardInput16_TheStoreFailsOnce(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress := s.StartService("ingress")
	s.StartService("processor")
	body := harness.Task("t1", "job", "COMPLETED", "2026-01-02T03:04:05Z")
	s.StopPostgres()
	expect(t, harness.Post(t, ingress.Addr, "/hooks/answers", body, harness.Secret), 503)
	s.StartPostgres()
	harness.Await(t, 10*time.Second, "the retry to be stored", func() error {
		if got := harness.Post(t, ingress.Addr, "/hooks/answers", body, harness.Secret); got != 204 {
			return fmt.Errorf("answered %d", got)
		}
		return nil
	})
	s.AwaitInt(10*time.Second, 1, answersCount)
	if got := ingress.Metric(`catchwater_ingress_deliveries_total{outcome="stored",source="answers"}`); got != 1 {
		t.Errorf("%v were stored, want 1: something had marked it as seen", got)
	}
}

func TestHardInput31_SIGTERMInABurst(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	ingress := s.StartService("ingress")
	var mu sync.Mutex
	var accepted []string
	var senders sync.WaitGroup
	var unready atomic.Bool
	for sender := range 32 {
		senders.Go(func() {
			// As a load balancer does, open no more connections once it is unready.
			for n := 0; !unready.Load(); n++ {
				id := fmt.Sprintf("s%d-%d", sender, n)
				body := harness.Task(id, id, "COMPLETED", "2026-01-02T03:04:05Z")
				conn, err := net.Dial("tcp", ingress.Addr)
				if err != nil {
					t.Errorf("a connection was refused: %v", err)
					return
				}
				fmt.Fprintf(conn, "POST /hooks/answers HTTP/1.1\r\nHost: x\r\nConnection: close\r\nWebhook-Signature: %s\r\nContent-Length: %d\r\n\r\n%s",
					delivery.Sign([]string{harness.Secret}, time.Now(), body), len(body), body)
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				_ = conn.Close()
				if err != nil {
					t.Errorf("a request ended without an answer: %v", err)
					return
				}
				if response.StatusCode == http.StatusNoContent {
					mu.Lock()
					accepted = append(accepted, id)
					mu.Unlock()
				}
			}
		})
	}
	harness.Await(t, 10*time.Second, "the burst to be under way", func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(accepted) < 500 {
			return fmt.Errorf("%d accepted", len(accepted))
		}
		return nil
	})
	ingress.Signal(syscall.SIGTERM)
	harness.Await(t, 10*time.Second, "the ingress to say that it is unready", func() error {
		response, err := http.Get("http://" + ingress.HealthAddr + "/readyz")
		if err == nil {
			_ = response.Body.Close()
		}
		if err == nil && response.StatusCode != http.StatusServiceUnavailable { // else it is gone altogether
			return fmt.Errorf("/readyz answers %s", response.Status)
		}
		return nil
	})
	unready.Store(true)
	senders.Wait()
	select {
	case <-ingress.Done():
	case <-time.After(20 * time.Second):
		t.Error("the ingress did not stop")
	}
	if n := s.Int("select count(*) from inbox where event_key = any($1)", accepted); n != len(accepted) {
		t.Errorf("%d of %d acknowledged deliveries have their row", n, len(accepted))
	}
}
