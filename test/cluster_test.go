package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/catchwater/catchwater/test/harness"
)

// TestStreamsOnACluster runs the services on three NATS servers and kills one:
// the doorbell rings on. A process that is set to fewer copies takes none away.
func TestStreamsOnACluster(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	servers := s.ClusterNATS()
	ingress := s.StartService("ingress")
	processor := s.StartService("processor", "CATCHWATER_NATS_REPLICAS=3")
	processor.AwaitDoorbell(1)
	reconciler := s.StartService("reconciler", "CATCHWATER_NATS_REPLICAS=3")
	awaitReplicas(t, s, "CATCHWATER", 3)
	awaitReplicas(t, s, "CATCHWATER_POLL", 3)

	fewer := s.StartService("processor") // one copy, by default
	fewer.AwaitDoorbell(1)
	awaitReplicas(t, s, "CATCHWATER", 3)
	fewer.Stop()

	simulator, _ := s.Simulator(ingress.Addr)
	total := 0
	for _, server := range servers {
		server.Kill()
		before := viaDoorbell(t, processor)
		harness.Await(t, time.Minute, "the doorbell to ring with a server gone", func() error {
			simulator.Burst(20, 0)
			total += 20
			s.AwaitInt(30*time.Second, total, answersCount)
			if viaDoorbell(t, processor) == before {
				return fmt.Errorf("nothing came by the doorbell")
			}
			return nil
		})
		server.Start()
		awaitReplicas(t, s, "CATCHWATER", 3)
	}
	reconciler.Stop()
}

// awaitReplicas returns when a stream has its copies, all of them current.
func awaitReplicas(t *testing.T, s *harness.System, stream string, want int) {
	t.Helper()
	conn, err := nats.Connect(s.NATSURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	harness.Await(t, time.Minute, fmt.Sprintf("%s to have %d copies", stream, want), func() error {
		found, err := js.Stream(t.Context(), stream)
		if err != nil {
			return err
		}
		info := found.CachedInfo()
		if info.Config.Replicas != want || info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != want-1 {
			return fmt.Errorf("it has %d: %+v", info.Config.Replicas, info.Cluster)
		}
		for _, replica := range info.Cluster.Replicas {
			if !replica.Current || replica.Offline {
				return fmt.Errorf("a copy is not current: %+v", replica)
			}
		}
		return nil
	})
}
