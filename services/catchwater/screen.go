package catchwater

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/term"
)

//go:embed summary.sql
var summarySQL string

//go:embed statuses.sql
var statusesSQL string

//go:embed latest.sql
var latestSQL string

// screen shows what a system does: a summary that is redrawn on a terminal, and
// a line now and then elsewhere.
type screen struct {
	out  io.Writer
	live bool

	mu sync.Mutex
}

func newScreen(out io.Writer, live bool) *screen { return &screen{out: out, live: live} }

// say prints a line.
func (s *screen) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out, "catchwater:", text)
}

const (
	redraw   = 500 * time.Millisecond
	lineTime = 5 * time.Second
)

// errNoTerminal says that nobody can be shown anything any more.
var errNoTerminal = errors.New("the terminal is gone")

// watch shows the system until ctx ends, or the terminal is closed.
func (s *screen) watch(ctx context.Context, u *setup) error {
	config, err := pgxpool.ParseConfig(u.database.url())
	if err != nil {
		return err
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	every := lineTime
	if s.live {
		every = redraw
	} else {
		s.say("running; " + u.where())
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for began := time.Now(); ; {
		current, err := readSummary(ctx, pool, u.sources)
		switch {
		case ctx.Err() != nil:
			return nil
		case s.live:
			if s.draw(current.page(u, time.Since(began), err)) != nil {
				return errNoTerminal
			}
		case err != nil:
			s.say("the summary could not be read: " + err.Error())
		default:
			s.say(current.line())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// draw puts lines in place of whatever stands on the terminal, cut to its size
// as it is now.
func (s *screen) draw(lines []string) error {
	width, height := 80, 24
	if file, ok := s.out.(*os.File); ok {
		if w, h, err := term.GetSize(int(file.Fd())); err == nil && w > 0 && h > 1 {
			width, height = w, h
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, line := range lines[:min(len(lines), height-1)] {
		if runes := []rune(line); len(runes) >= width {
			line = string(runes[:width-1])
		}
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	_, err := io.WriteString(s.out, b.String())
	return err
}

// where says how to reach the system.
func (u *setup) where() string {
	return fmt.Sprintf("deliveries http://%s/hooks/{source}, settings for scripts in %s", local(u.IngressPort), u.folder.path("env"))
}

// summary is how a system stands.
type summary struct {
	processed, pending, waiting, quarantined int64
	oldest                                   time.Duration
	completed, failed, lastMinute            int64
	byDelivery, byReconcile                  int64
	effects, givenUp                         int64 // pending, given up
	open, overdue, investigate               int64
	statuses                                 []statusCount
	latest                                   []latestAnswer
}

// statusCount is how many messages have a status.
type statusCount struct {
	status string
	count  int64
}

type latestAnswer struct {
	at             time.Time
	taskID, jobKey string
	status, origin string
	took           time.Duration
}

// readSummary reads how a system with these sources stands.
func readSummary(ctx context.Context, pool *pgxpool.Pool, sources []string) (summary, error) {
	ctx, cancel := context.WithTimeout(ctx, lineTime)
	defer cancel()
	var s summary
	err := pool.QueryRow(ctx, summarySQL, sources).Scan(&s.processed, &s.pending, &s.waiting, &s.quarantined, &s.oldest, &s.completed,
		&s.failed, &s.lastMinute, &s.byDelivery, &s.byReconcile, &s.effects, &s.givenUp, &s.open, &s.overdue, &s.investigate)
	if err != nil {
		return s, err
	}
	rows, err := pool.Query(ctx, statusesSQL)
	if err == nil {
		s.statuses, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c statusCount, err error) {
			return c, row.Scan(&c.status, &c.count)
		})
	}
	if err != nil {
		return s, err
	}
	if rows, err = pool.Query(ctx, latestSQL); err != nil {
		return s, err
	}
	s.latest, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a latestAnswer, err error) {
		return a, row.Scan(&a.at, &a.taskID, &a.jobKey, &a.status, &a.origin, &a.took)
	})
	return s, err
}

// messages is how many messages there are, whatever their status.
func (s summary) messages() (n int64) {
	for _, c := range s.statuses {
		n += c.count
	}
	return n
}

// messageLines are the messages by status, three to a line.
func (s summary) messageLines() (lines []string) {
	widths := [...]int{18, 16, 0} // of the columns that the lines above have
	for n, label := 0, "messages"; n < len(s.statuses); n, label = n+len(widths), "" {
		line := fmt.Sprintf("  %-12s", label)
		for column, c := range s.statuses[n:min(n+len(widths), len(s.statuses))] {
			line += fmt.Sprintf(" %-*s", widths[column], fmt.Sprintf("%s %d", c.status, c.count))
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// line is the summary in one line.
func (s summary) line() string {
	line := fmt.Sprintf("answers %d (%d in the last minute), messages %d, inbox processed %d pending %d quarantined %d, submitted and open %d, overdue %d, by reconciling %d",
		s.completed+s.failed, s.lastMinute, s.messages(), s.processed, s.pending, s.quarantined, s.open, s.overdue, s.byReconcile)
	if s.waiting > 0 {
		line += fmt.Sprintf(", waiting for their message %d", s.waiting)
	}
	if s.effects > 0 || s.givenUp > 0 {
		line += fmt.Sprintf(", effects pending %d given up %d", s.effects, s.givenUp)
	}
	return line
}

// seldomLines are of what there seldom is anything.
func (s summary) seldomLines() (lines []string) {
	if s.waiting > 0 {
		lines = append(lines, fmt.Sprintf("  waiting      %d events for their message to be registered", s.waiting))
	}
	if s.effects > 0 || s.givenUp > 0 {
		lines = append(lines, fmt.Sprintf("  effects      pending %-10d given up %d", s.effects, s.givenUp))
	}
	return lines
}

// pageLines is how many lines a page has at most: a terminal of 24 shows it all.
const pageLines = 23

// page is the summary as a screen.
func (s summary) page(u *setup, up time.Duration, err error) []string {
	lines := []string{
		"",
		fmt.Sprintf("  Catchwater has been running for %s", up.Round(time.Second)),
		"",
		fmt.Sprintf("  deliveries   http://%s/hooks/{source}", local(u.IngressPort)),
	}
	if !u.NoSimulator {
		lines = append(lines, fmt.Sprintf("  simulator    http://%s   (docs/simulator.md)", local(u.SimulatorPort)))
	}
	lines = append(lines,
		fmt.Sprintf(`  database     . %s && psql "$DATABASE_URL"`, quoteIfNeeded(u.folder.path("env"))),
		fmt.Sprintf("  logs         %s", u.folder.path("logs")),
		"",
	)
	if err != nil {
		return append(lines, "  the database does not answer: "+err.Error(), "", "  Ctrl-C stops everything.")
	}
	lines = append(lines,
		fmt.Sprintf("  inbox        processed %-8d pending %-8d quarantined %-6d oldest %s", s.processed, s.pending, s.quarantined, s.oldest.Round(100*time.Millisecond)),
		fmt.Sprintf("  answers      completed %-8d failed %-7d in the last minute %d", s.completed, s.failed, s.lastMinute),
	)
	lines = append(append(lines, s.messageLines()...),
		fmt.Sprintf("  came by      delivery %-9d reconcile %d", s.byDelivery, s.byReconcile),
		fmt.Sprintf("  submitted    open %-13d overdue %-6d needs investigation %d", s.open, s.overdue, s.investigate),
	)
	lines = append(append(lines, s.seldomLines()...), "", "  latest answers")
	for _, a := range s.latest[:max(0, min(len(s.latest), pageLines-2-len(lines)))] {
		lines = append(lines, fmt.Sprintf("    %s  %-9s  by %-9s  after %-8s %s", a.at.Local().Format(time.TimeOnly), a.status, a.origin, a.took.Round(time.Millisecond), a.taskID))
	}
	return append(lines, "", "  Ctrl-C stops everything.")
}
