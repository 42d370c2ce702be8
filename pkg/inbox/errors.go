package inbox

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// IsRowError reports whether err is the database refusing a value, so that the
// rows beside it may well be fine. Everything else is about the session, the
// transaction, the schema or the server, and about all rows alike.
func IsRowError(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || len(pgErr.Code) != 5 {
		return false
	}
	switch pgErr.Code[:2] {
	case "22", // a value that is not one of its type, or out of range
		"23", // a constraint
		"54", // too long, too deep
		"P0": // raised by a trigger or function
		return true
	}
	return false
}

// translate marks what is not about a row as unavailability.
func translate(err error) error {
	if err == nil || IsRowError(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
