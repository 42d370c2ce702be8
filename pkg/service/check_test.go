package service

import (
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

func TestCheckReady(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	everywhere := net.JoinHostPort("", strings.TrimPrefix(listener.Addr().String(), "127.0.0.1:"))
	if err := CheckReady(t.Context(), everywhere); err == nil {
		t.Errorf("port %d, where nobody listens, is ready", port)
	}
	health := NewHealth()
	go func() {
		_ = ServeHealth(t.Context(), listener.Addr().String(), health, NewRegistry(), slog.New(slog.DiscardHandler))
	}()
	await(t, func() bool {
		err := CheckReady(t.Context(), everywhere)
		return err != nil && strings.Contains(err.Error(), "start: the service is starting")
	})
	health.Release("start")
	for _, addr := range []string{listener.Addr().String(), everywhere, "0.0.0.0" + everywhere} {
		if err := CheckReady(t.Context(), addr); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	health.Hold("stop", "the service is stopping")
	if err := CheckReady(t.Context(), listener.Addr().String()); err == nil || !strings.Contains(err.Error(), "stop: the service is stopping") {
		t.Errorf("a service that stops: %v", err)
	}
	if err := CheckReady(t.Context(), "8080"); err == nil {
		t.Error("an address without a port is taken")
	}
}

// await polls until ok returns true.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("waited 30s in vain")
		}
		<-time.After(10 * time.Millisecond)
	}
}
