package catchwater

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// table is a list as people read it: each value in one cell of one line, whatever
// its sender put into it. --json has them whole.
type table struct{ w *tabwriter.Writer }

// widest bounds a cell, in characters.
const widest = 80

func newTable(out io.Writer, titles ...string) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.w, strings.Join(titles, "\t"))
	return t
}

// row adds a line. Times are shown to the second.
func (t table) row(values ...any) {
	cells := make([]string, len(values))
	for i, value := range values {
		switch v := value.(type) {
		case time.Time:
			cells[i] = v.Format(time.DateTime)
		default:
			cells[i] = cell(fmt.Sprint(v))
		}
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// end writes the table. It says so if more was found than the limit lets
// through.
func (t table) end(more bool) error {
	if more {
		fmt.Fprintln(t.w, "… more: --limit")
	}
	return t.w.Flush()
}

// cell is a text for a terminal: cut to a bearable width, and what would move the
// cursor, colour the screen or be invisible escaped.
func cell(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > widest {
			return b.String() + "…"
		}
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := fmt.Sprintf("%+q", r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// limited is what a limit lets through of a list that was asked for one more,
// and whether there was more.
func limited[T any](list []T, limit int) (shown []T, more bool) {
	return list[:min(len(list), limit)], len(list) > limit
}

// checkList refuses bounds of a list that make no sense.
func checkList(limit int, olderThan time.Duration) error {
	if limit < 1 {
		return fmt.Errorf("--limit is %d: use at least 1", limit)
	}
	if olderThan < 0 {
		return fmt.Errorf("--older-than is %s: use 0s or more", olderThan)
	}
	return nil
}
