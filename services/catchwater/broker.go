package catchwater

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// broker is the embedded NATS server of a system.
type broker struct {
	server *server.Server
	port   int
}

// startBroker starts NATS with JetStream on loopback, so that scripts reach it
// too.
func startBroker(dir string, port int) (*broker, error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "catchwater", Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the broker: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return nil, errors.New("start the broker: it did not take connections within 10s")
	}
	return &broker{server: s, port: port}, nil
}

func (b *broker) url() string { return "nats://" + local(b.port) }

func (b *broker) stop() {
	b.server.Shutdown()
	b.server.WaitForShutdown()
}
