package test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/catchwater/catchwater/pkg/pgserver"
)

// demo runs the programs as docker-compose.yml says, but as processes of this
// machine: every address and path of a container is another one here, and nothing
// else is changed. A program sees no other variable than its service's.
type demo struct {
	project *types.Project
	bin     string
	here    *strings.Replacer
}

// TestComposeDemo goes the way of `docker compose --profile demo up`: passwords
// are made up, the migration lets the roles in, the services become healthy by
// their own checks, and what the providers deliver is processed.
func TestComposeDemo(t *testing.T) {
	t.Parallel()
	project := loadCompose(t, "docker-compose.yml")
	dir, err := os.MkdirTemp("", "catchwater-demo-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // Postgres may run as another user
		t.Fatal(err)
	}
	d := &demo{project: project, bin: filepath.Join(dir, "bin")}
	volume := filepath.Join(dir, "etc")
	postgres, nats, ingress, simulator := freeAddress(t), freeAddress(t), freeAddress(t), freeAddress(t)
	d.here = strings.NewReplacer("/etc/catchwater", volume, "postgres:5432", postgres, "nats:4222", nats,
		"http://jaeger:4318", "", // without traces
		"ingress:8080", ingress, "0.0.0.0:8080", ingress, "simulator:8090", simulator, "0.0.0.0:8090", simulator,
		"0.0.0.0:8180", freeAddress(t), "0.0.0.0:8182", freeAddress(t), "0.0.0.0:8183", freeAddress(t), "0.0.0.0:8190", freeAddress(t))
	d.build(t)
	runSetup(t, project, volume, d.here.Replace(sourcesText(t, project)))
	db := startPostgres(t, dir, postgres, filepath.Join(volume, "passwords", "owner"))
	startNATS(t, dir, nats)

	migrate := d.command(t.Context(), "migrate", project.Services["migrate"].Command...)
	if out, err := migrate.CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v: %s", err, out)
	}
	for _, service := range []string{"ingress", "processor", "reconciler", "simulator"} {
		d.start(t, dir, service)
	}
	for _, table := range []string{"answers", "messages"} {
		await(t, "rows in "+table, func() error {
			var rows int
			if err := db.QueryRow(t.Context(), "select count(*) from "+table).Scan(&rows); err != nil {
				return err
			}
			if rows < 3 {
				return fmt.Errorf("there are %d", rows)
			}
			return nil
		})
	}
	out, err := d.command(t.Context(), "catchwater", "inbox", "list", "--state", "processed").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "processed") {
		t.Errorf("the operator's command: %v: %s", err, out)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := pgserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// await returns when check returns nil, and fails the test with its last error.
func await(t *testing.T, what string, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(100 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited two minutes for %s: %v", what, err)
		}
	}
}

// build builds the programs, in the workspace, as `make build` does.
func (d *demo) build(t *testing.T) {
	t.Helper()
	args := []string{"build", "-trimpath", "-o", d.bin + "/"}
	for _, program := range programs {
		args = append(args, "./services/"+program+"/cmd/"+program)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// command is a service's program with its service's variables and no others.
func (d *demo) command(ctx context.Context, service string, args ...string) *exec.Cmd {
	config := d.project.Services[service]
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, config.Build.Target), args...)
	cmd.Env = []string{} // not this process's
	for name, value := range environmentOf(config) {
		cmd.Env = append(cmd.Env, name+"="+d.here.Replace(value))
	}
	return cmd
}

// start runs a service until the test ends, and returns when its health check
// finds it healthy.
func (d *demo) start(t *testing.T, dir, service string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, service+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := d.command(context.WithoutCancel(t.Context()), service)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", service, err)
		}
		_ = log.Close()
		if data, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("last of the log of %s:\n%s", service, data[max(0, len(data)-2000):])
		}
	})
	check := d.project.Services[service].HealthCheck.Test
	await(t, service+" to be healthy", func() error {
		if out, err := d.command(t.Context(), service, check[2:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// startPostgres makes the cluster that the image would: with a superuser
// who owns one database, and whose password is in a file.
func startPostgres(t *testing.T, dir, address, passwordFile string) *pgx.Conn {
	t.Helper()
	binaries, err := pgserver.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	postgres, err := pgserver.Start(t.Context(), pgserver.Options{
		Binaries: binaries, DataDir: filepath.Join(dir, "postgres"), Port: portOf(t, address), Settings: map[string]string{"fsync": "off"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(postgres.Kill)
	password, err := os.ReadFile(passwordFile)
	if err != nil {
		t.Fatal(err)
	}
	super, err := pgx.Connect(t.Context(), postgres.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(t.Context())
	if _, err := super.Exec(t.Context(), "create database catchwater"); err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), postgres.URL("catchwater"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := super.Exec(t.Context(), "alter role "+pgserver.Superuser+" password '"+string(password)+"'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.WithoutCancel(t.Context())) })
	return db
}

func startNATS(t *testing.T, dir, address string) {
	t.Helper()
	nats, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: portOf(t, address), JetStream: true, StoreDir: filepath.Join(dir, "nats"), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	nats.Start()
	t.Cleanup(func() { nats.Shutdown(); nats.WaitForShutdown() })
	if !nats.ReadyForConnections(time.Minute) {
		t.Fatal("NATS takes no connections")
	}
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return tcp.Port
}
