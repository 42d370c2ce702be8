package service

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	checkTimeout = 3 * time.Second
	maxReasons   = 4 << 10 // bytes of an answer that are shown
)

// CheckReady asks the service whose health address this is whether it is
// ready, and returns an error with its reasons when it is not. It is for
// container engines: an image without a shell has no other program to ask with.
func CheckReady(ctx context.Context, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("read the health address %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // the address listens on all interfaces
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("ask whether the service is ready: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask whether the service is ready: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		reasons, _ := io.ReadAll(io.LimitReader(response.Body, maxReasons))
		return fmt.Errorf("not ready: %s", strings.TrimSpace(string(reasons)))
	}
	return nil
}
