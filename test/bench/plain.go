package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// servePlain is what Catchwater's ingress is compared with: the handler of the
// reference document, one insert a request, as a Go programmer writes it.
func servePlain(addr string) error {
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	config.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return err
	}
	http.HandleFunc("POST /hooks/answers", func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if !verified(r.Header.Get("Webhook-Signature"), raw) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var delivery struct {
			Test bool
			Task struct{ ID string }
		}
		if err := json.Unmarshal(raw, &delivery); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if !delivery.Test {
			_, err = pool.Exec(r.Context(), "insert into plain_inbox (task_id, body) values ($1, $2::jsonb) on conflict (task_id) do nothing", delivery.Task.ID, string(raw))
			if err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
		}
		w.WriteHeader(http.StatusNoContent)
	})
	server := &http.Server{Addr: addr, ReadHeaderTimeout: 5 * time.Second}
	return fmt.Errorf("serve: %w", server.ListenAndServe())
}

func verified(header string, body []byte) bool {
	stamp, signature, ok := strings.Cut(strings.TrimPrefix(header, "t="), ",v1=")
	if !ok {
		return false
	}
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(stamp + "."))
	m.Write(body)
	sent, err := hex.DecodeString(signature)
	return err == nil && hmac.Equal(sent, m.Sum(nil))
}
