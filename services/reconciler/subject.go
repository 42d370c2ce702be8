package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/catchwater/catchwater/pkg/answerline"
	"github.com/catchwater/catchwater/pkg/source"
)

// subject is what a provider is asked about, by a question of its own. All else
// is the same for tasks and messages.
type subject struct {
	noun, plural string
	id           string // the name of its id in the log
	lost         string // what is said of one past the horizon
	ask          func(ctx context.Context, p *provider, id string) (answer, error)
}

// answer is what a provider says of a subject. An error instead of it says that
// there was no answer that could be read.
type answer struct {
	status string // as the provider words it
	// final: nothing more needs to be asked, when the events are stored.
	final  bool
	events []source.Event // to be stored
	// restated: the events are delivered in other bytes.
	restated bool
	unusable string // why nothing can be made of it, or of a part
}

func subjectOf(s *source.Source) subject {
	if s.Messages != nil {
		return subject{
			noun: "message", plural: "messages", id: "message_id",
			lost: "a registered message has no final status", ask: askForMessage,
		}
	}
	return subject{
		noun: "task", plural: "tasks", id: "task_id",
		lost: "a submitted task has no result", ask: askForTask,
	}
}

// askForTask asks for a task's result.
func askForTask(ctx context.Context, p *provider, id string) (answer, error) {
	task, body, err := (*answerline.Client)(p.client()).GetTask(ctx, id)
	if err != nil {
		return answer{}, err
	}
	if task.ID != id {
		return answer{unusable: fmt.Sprintf("the answer is about task %.80q", task.ID)}, nil
	}
	if !task.Final() {
		return answer{status: task.Status}, nil
	}
	// The same code as for a delivery, so that the key is the one that its
	// delivery has, or would have had. Whatever is read otherwise there than here
	// must not be stored under another key.
	identity := p.source.Identify(http.Header{}, body)
	switch {
	case identity.Test:
		return answer{unusable: "the answer is marked as a test"}, nil
	case identity.Quarantine != "":
		return answer{unusable: identity.Quarantine}, nil
	case identity.EventKey != id:
		return answer{unusable: fmt.Sprintf("the source's settings make %.80q the key of the answer, not the task id", identity.EventKey)}, nil
	}
	return answer{status: task.Status, final: true, events: []source.Event{{Identity: identity, Body: body}}}, nil
}

// askForMessage asks for a message's status.
func askForMessage(ctx context.Context, p *provider, id string) (answer, error) {
	body, err := p.client().Send(ctx, http.MethodGet, p.source.Reconcile.Path(id), nil)
	if err != nil {
		return answer{}, fmt.Errorf("ask for message %q: %w", id, err)
	}
	said, err := p.source.ReadAnswer(id, body)
	if err != nil {
		return answer{}, fmt.Errorf("ask for message %q: %w", id, err)
	}
	return answer{status: cmp.Or(said.Status, "no event"), final: said.Final, events: said.Events, restated: true, unusable: said.Unusable}, nil
}
