// Package download fetches Postgres server binaries for machines without any.
// It stands apart so that only the program that needs it links it.
package download

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"github.com/catchwater/catchwater/pkg/pgserver"
)

// Binaries returns a folder with initdb and postgres under cache, fetching them
// from Maven Central the first time.
func Binaries(cache string) (string, error) {
	bin := filepath.Join(cache, "bin")
	if pgserver.HasBinaries(bin) {
		return bin, nil
	}
	port, err := pgserver.FreePort()
	if err != nil {
		return "", err
	}
	scratch, err := os.MkdirTemp("", "catchwater-postgres-")
	if err != nil {
		return "", fmt.Errorf("make a scratch folder: %w", err)
	}
	defer os.RemoveAll(scratch)
	// The library fetches and unpacks on the way to starting a server, which it
	// cannot do as root; all that is wanted of it is the binaries.
	database := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		BinariesPath(cache).RuntimePath(scratch).Port(uint32(port)).Logger(io.Discard))
	startErr := database.Start()
	if startErr == nil {
		if err := database.Stop(); err != nil {
			return "", fmt.Errorf("stop the server that came with the download: %w", err)
		}
	}
	if !pgserver.HasBinaries(bin) {
		return "", errors.Join(pgserver.ErrNoBinaries, fmt.Errorf("fetching them failed as well: %w", startErr))
	}
	return bin, nil
}
