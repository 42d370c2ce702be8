package answers

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/jsonscan"
	"github.com/catchwater/catchwater/pkg/source"
)

// The statuses that are final; a task in any other may still change.
const (
	Completed = "COMPLETED"
	Failed    = "FAILED"
)

// Result is what one delivery says of one task.
type Result struct {
	Source         string
	TaskID         string
	JobKey         string
	IdempotencyKey string // empty where the task was created without one
	TaskType       string
	Status         string // Completed or Failed
	CreatedAt      time.Time
	CreditsCharged string // a decimal number, or empty
	// Response is JSON as jsonb takes it, or nil where the delivery has none.
	Response []byte
	// Repaired says that Response had to be changed to be jsonb.
	Repaired bool
	InboxID  int64
}

// maxKey bounds the keys that are indexed, in bytes; a longer one is stored as
// its SHA-256.
const maxKey = 512

var paths = [...]jsonscan.Path{
	jsonscan.MustParsePath("task.id"), jsonscan.MustParsePath("task.taskType"), jsonscan.MustParsePath("task.status"), jsonscan.MustParsePath("task.createdAt"),
	jsonscan.MustParsePath("task.idempotencyKey"), jsonscan.MustParsePath("credits.creditsCharged"), jsonscan.MustParsePath("response"),
}

// Decode reads the result out of an inbox row. Its errors are permanent: the
// same bytes will never say anything else.
func Decode(row inbox.Row) (Result, error) {
	result, err := decode(row)
	if err != nil {
		return Result{}, &inbox.PermanentError{Err: err}
	}
	return result, nil
}

func decode(row inbox.Row) (Result, error) {
	if row.Body == nil {
		return Result{}, errors.New("the payload has been dropped")
	}
	content, err := row.Content()
	if err != nil {
		return Result{}, err
	}
	values, err := jsonscan.Scan(content, paths[:]...)
	if err != nil {
		return Result{}, fmt.Errorf("not JSON: %w", err)
	}
	id, taskType, status, createdAt := values[0], values[1], values[2], values[3]
	idempotencyKey, credits, response := values[4], values[5], values[6]

	result := Result{Source: row.Source, InboxID: row.ID, TaskType: text(taskType), Status: text(status)}
	if id.Kind != jsonscan.String && id.Kind != jsonscan.Number {
		return Result{}, errors.New("no task.id")
	}
	if result.Status != Completed && result.Status != Failed {
		return Result{}, fmt.Errorf("task.status is %.40q: only %s and %s are final", result.Status, Completed, Failed)
	}
	if result.CreatedAt, err = source.ParseTime(text(createdAt)); err != nil {
		return Result{}, fmt.Errorf("read task.createdAt %.40q: %w", text(createdAt), err)
	}
	taskID, repaired := id.Text()
	if repaired || len(taskID) > maxKey || strings.ContainsRune(taskID, 0) {
		taskID = row.EventKey // which tells apart what repairing could make equal
	}
	result.TaskID = taskID
	result.IdempotencyKey = bounded(text(idempotencyKey))
	result.JobKey = bounded(JobKey(text(idempotencyKey), taskID))
	if credits.Kind == jsonscan.Number {
		if _, outOfRange := Repair(credits.Raw); !outOfRange {
			result.CreditsCharged = string(credits.Raw)
		}
	}
	if response.Kind != jsonscan.Missing {
		result.Response, result.Repaired = Repair(response.Raw)
	}
	return result, nil
}

// text is a scalar as Postgres text, and empty for anything else.
func text(v jsonscan.Value) string {
	if v.Kind != jsonscan.String && v.Kind != jsonscan.Number {
		return ""
	}
	s, _ := v.Text()
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}

func bounded(key string) string {
	if len(key) <= maxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}
