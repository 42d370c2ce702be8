package source

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// readTime reads an ISO 8601 time, or seconds or milliseconds since 1970; zero
// for anything else.
func readTime(text string) time.Time {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if seconds > 1e11 { // the year 5138 in seconds, 1973 in milliseconds
			seconds /= 1000
		}
		if !(seconds > 0 && seconds <= 1e11) { // not a number included
			return time.Time{}
		}
		return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC()
	}
	at, err := ParseTime(text)
	if err != nil {
		return time.Time{}
	}
	return at
}

var errNotTime = errors.New("it is not an ISO 8601 time between the years 1970 and 9999")

// ParseTime reads an ISO 8601 time with or without seconds, fractions and an
// offset, with or without a colon in that; without an offset it is UTC.
func ParseTime(text string) (time.Time, error) {
	for _, layout := range []string{
		time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z0700",
	} {
		if at, err := time.Parse(layout, text); err == nil && at.Year() >= 1970 && at.Year() <= 9999 {
			return at, nil
		}
	}
	return time.Time{}, errNotTime
}
