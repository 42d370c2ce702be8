package processor

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/catchwater/catchwater/pkg/inbox"
	busv1 "github.com/catchwater/catchwater/proto/catchwater/bus/v1"
)

// lookAgain is when a message is handed out again whose row somebody else
// holds, or whose batch failed.
const lookAgain = 5 * time.Second

// answer runs one worker on the doorbell until ctx ends.
func (p *processor) answer(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case msg := <-p.consumer.Messages():
			p.handle(ctx, p.collect(msg))
		}
	}
}

// collect takes what else is waiting, up to a batch. It does not linger.
func (p *processor) collect(first jetstream.Msg) []jetstream.Msg {
	msgs := []jetstream.Msg{first}
	for limit := p.bellLimit.rows(); len(msgs) < limit; {
		select {
		case msg := <-p.consumer.Messages():
			msgs = append(msgs, msg)
		default:
			return msgs
		}
	}
	return msgs
}

// handle processes the rows that messages name, and acknowledges the messages
// after the commit, whatever became of the rows: their state is in the inbox.
func (p *processor) handle(ctx context.Context, msgs []jetstream.Msg) {
	byID := make(map[int64][]jetstream.Msg, len(msgs))
	ids := make([]int64, 0, len(msgs))
	for _, msg := range msgs {
		var announcement busv1.Announcement
		if err := proto.Unmarshal(msg.Data(), &announcement); err != nil || announcement.GetInboxId() <= 0 {
			p.log.Warn("dropping a message that is no announcement", slog.String("subject", msg.Subject()))
			_ = msg.Term()
			continue
		}
		id := announcement.GetInboxId()
		if len(byID[id]) == 0 {
			ids = append(ids, id)
		}
		byID[id] = append(byID[id], msg)
	}
	if len(ids) == 0 {
		return
	}
	var held map[int64]bool
	result, err := p.batcher.run(ctx, viaDoorbell,
		func(ctx context.Context, tx pgx.Tx) ([]inbox.Row, error) {
			rows, err := inbox.ClaimIDs(ctx, tx, ids)
			belowMessages(rows, byID)
			return rows, err
		},
		func(ctx context.Context, tx pgx.Tx, rows []inbox.Row) (err error) {
			held, err = heldByOthers(ctx, tx, ids, rows)
			return err
		})
	p.bellLimit.heed(result, err)
	p.record(ctx, viaDoorbell, result, err)
	for id, msgs := range byID {
		for _, msg := range msgs {
			if err != nil || held[id] {
				_ = msg.NakWithDelay(lookAgain)
			} else {
				_ = msg.Ack()
			}
		}
	}
	if err != nil {
		p.pause(ctx)
	}
}

// heldByOthers returns the ids that want processing and were not claimed.
func heldByOthers(ctx context.Context, tx pgx.Tx, ids []int64, claimed []inbox.Row) (map[int64]bool, error) {
	got := make(map[int64]bool, len(claimed))
	for _, row := range claimed {
		got[row.ID] = true
	}
	var missing []int64
	for _, id := range ids {
		if !got[id] {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	return inbox.Claimable(ctx, tx, missing)
}
