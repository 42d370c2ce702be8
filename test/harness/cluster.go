package harness

import (
	"fmt"
	"path/filepath"
	"strings"
)

// ClusterNATS puts three NATS servers in the place of the one. Services started
// from now on are told of all of them.
func (s *System) ClusterNATS() []*Process {
	s.T.Helper()
	s.NATS.Kill()
	var clients, routes []int
	for range 3 {
		clients, routes = append(clients, s.Port()), append(routes, s.Port())
	}
	var all, urls []string
	for n := range clients {
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", routes[n]))
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", clients[n]))
	}
	s.NATSURL = strings.Join(urls, ",")
	var servers []*Process
	for n := range clients {
		name := fmt.Sprintf("nats-%d", n)
		servers = append(servers, newProcess(s.T, name, s.Dir, Program(s.T, "nats-server"), []string{
			"-js", "-sd", filepath.Join(s.Dir, name), "-n", name, "-a", "127.0.0.1", "-p", fmt.Sprint(clients[n]),
			"-cluster_name", "catchwater", "-cluster", all[n], "-routes", strings.Join(all, ","),
		}, nil))
	}
	return servers
}
