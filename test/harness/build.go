package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// built is where the programs under test are, built once a test binary.
var built = struct {
	once sync.Once
	dir  string
	err  error
}{}

// programs are the services, and the broker.
var programs = []string{
	"github.com/catchwater/catchwater/services/ingress/cmd/ingress",
	"github.com/catchwater/catchwater/services/processor/cmd/processor",
	"github.com/catchwater/catchwater/services/simulator/cmd/simulator",
	"github.com/catchwater/catchwater/services/reconciler/cmd/reconciler",
	"github.com/catchwater/catchwater/services/catchwater/cmd/catchwater",
	"github.com/nats-io/nats-server/v2",
}

// Program returns the path of a program, built from this source.
func Program(t testing.TB, name string) string {
	t.Helper()
	built.once.Do(func() { built.dir, built.err = build() })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, name)
}

func build() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	module := filepath.Dir(filepath.Dir(file))
	dir := filepath.Join(module, "..", "bin", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	cmd := exec.Command("go", append([]string{"build", "-o", dir + "/"}, programs...)...)
	cmd.Dir = module
	// Whatever module the test is of, the services are built as they are shipped.
	cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(module, "..", "go.work"))
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs under test: %w\n%s", err, output)
	}
	return dir, nil
}
