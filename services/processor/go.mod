module github.com/catchwater/catchwater/services/processor

go 1.26.0

require (
	github.com/catchwater/catchwater/pkg v0.0.0
	github.com/catchwater/catchwater/proto v0.0.0
)

replace github.com/catchwater/catchwater/pkg => ../../pkg

replace github.com/catchwater/catchwater/proto => ../../proto
