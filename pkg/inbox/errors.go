package inbox

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// IsRowError reports whether err is the database refusing a value, so that
// the rows beside it may well be fine: anything that it answered except what
// concerns the session, the transaction or the server itself.
func IsRowError(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || len(pgErr.Code) != 5 {
		return false
	}
	switch pgErr.Code[:2] {
	case "08", // connection
		"25", // transaction state, a read-only replica
		"28", // authorization
		"3D", // no such database
		"40", // deadlock, serialization
		"42", // no such table or column, no privilege
		"53", // out of memory, disk, connections
		"55", // lock not available
		"57", // shutting down, query cancelled
		"58", // i/o
		"F0", // configuration file
		"XX": // internal
		return false
	}
	return true
}

// translate marks what is not about a row as unavailability.
func translate(err error) error {
	if err == nil || IsRowError(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
