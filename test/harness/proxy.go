package harness

import (
	"net"
	"sync"
	"testing"
)

// Proxy passes TCP connections on to an address, and can hold back what the
// far side answers.
type Proxy struct {
	Addr string

	mu   sync.Mutex
	held bool
	cond *sync.Cond
}

// NewProxy starts a proxy in front of a target.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: listener.Addr().String()}
	p.cond = sync.NewCond(&p.mu)
	t.Cleanup(func() {
		_ = listener.Close()
		p.Release()
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				_ = near.Close()
				continue
			}
			go p.pass(far, near, nil)
			go p.pass(near, far, p.wait)
		}
	}()
	return p
}

// Hold keeps answers back until Release. Requests go on passing.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
}

// Release lets answers pass, those held back first.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	p.cond.Broadcast()
}

func (p *Proxy) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held {
		p.cond.Wait()
	}
}

func (p *Proxy) pass(to, from net.Conn, before func()) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if before != nil {
			before()
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
