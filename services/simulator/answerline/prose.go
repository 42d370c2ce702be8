package answerline

import "math/rand/v2"

// prose is a stock of words that made-up answers are cut from. It never changes.
type prose struct{ words [proseWords]string }

const proseWords = 4096

func newProse(seed uint64) *prose {
	stock := []string{
		"water", "gathers", "on", "the", "slope", "and", "runs", "to", "the", "reservoir", "where", "it", "is",
		"kept", "until", "somebody", "needs", "it;", "élan", "für", "水", "catchment", "rain", "in", "spring.",
	}
	random := rand.New(rand.NewPCG(seed, 2))
	var p prose
	for n := range p.words {
		p.words[n] = stock[random.IntN(len(stock))] + " "
	}
	return &p
}

// appendText appends at least size bytes of words, starting at one that start
// picks.
func (p *prose) appendText(b []byte, start uint64, size int) []byte {
	for end, n := len(b)+size, start%proseWords; len(b) < end; n = (n + 1) % proseWords {
		b = append(b, p.words[n]...)
	}
	return b
}
