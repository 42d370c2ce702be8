package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/catchwater/catchwater/services/simulator/delivery"
)

// filler makes bodies of 2 KB; it is as little repetitive as prose.
var filler = strings.Repeat("Water gathers on the slope, runs down the channel, and comes to the reservoir; nothing of it is lost on the way. ", 16)[:1750]

// body is a result with an id of its own.
func body(id string) []byte {
	return fmt.Appendf(nil, `{"task":{"id":%q,"taskType":"answer","status":"COMPLETED","priority":0,"createdAt":"2026-01-02T03:04:05Z","idempotencyKey":%q},`+
		`"credits":{"creditsToCharge":3,"creditsCharged":3},"response":{"result":{"text":%q}}}`, id, id, filler)
}

// sender is one kept connection. It speaks just enough HTTP to send deliveries
// and to read a 204, so that the load costs little of the machine.
type sender struct {
	conn   net.Conn
	reader *bufio.Reader
	buffer bytes.Buffer
}

func dialSender(addr string) (*sender, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &sender{conn: conn, reader: bufio.NewReader(conn)}, nil
}

func (s *sender) send(id string) error {
	b := body(id)
	s.buffer.Reset()
	fmt.Fprintf(&s.buffer, "POST /hooks/answers HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nWebhook-Id: wh_%s\r\nWebhook-Signature: %s\r\nContent-Length: %d\r\n\r\n",
		id, delivery.Sign([]string{secret}, time.Now(), b), len(b))
	s.buffer.Write(b)
	if _, err := s.conn.Write(s.buffer.Bytes()); err != nil {
		return err
	}
	status, err := s.reader.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(status, "HTTP/1.1 204") {
		return fmt.Errorf("answered %s", strings.TrimSpace(status))
	}
	for {
		line, err := s.reader.ReadString('\n')
		if err != nil {
			return err
		}
		if line == "\r\n" {
			return nil
		}
	}
}

// figures are what a load came to.
type figures struct {
	rate     float64 // a second
	p50, p99 time.Duration
}

// load sends from so many connections, each as soon as it has its answer.
func load(addr, prefix string, connections int, lasting time.Duration) (figures, error) {
	senders := make([]*sender, connections)
	for i := range senders {
		var err error
		if senders[i], err = dialSender(addr); err != nil {
			return figures{}, err
		}
		defer senders[i].conn.Close()
	}
	took := make([][]time.Duration, connections)
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	began := time.Now()
	for i, s := range senders {
		group.Go(func() {
			for n := 0; time.Since(began) < lasting && failed.Load() == nil; n++ {
				start := time.Now()
				if err := s.send(fmt.Sprintf("%s-%d-%d", prefix, i, n)); err != nil {
					failed.Store(&err)
					return
				}
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return figures{}, *err
	}
	all := slices.Concat(took...)
	return summarise(all, time.Since(began)), nil
}

func summarise(all []time.Duration, lasting time.Duration) figures {
	slices.Sort(all)
	if len(all) == 0 {
		return figures{}
	}
	return figures{rate: float64(len(all)) / lasting.Seconds(), p50: all[len(all)/2], p99: all[len(all)*99/100]}
}
