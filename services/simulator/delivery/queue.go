package delivery

// dueQueue is a heap of deliveries by the time of their next attempt.
type dueQueue []*Delivery

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].NextAttemptAt.Before(q[j].NextAttemptAt) }
func (q dueQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *dueQueue) Push(x any)        { *q = append(*q, x.(*Delivery)) }
func (q *dueQueue) Pop() any {
	last := len(*q) - 1
	d := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return d
}
