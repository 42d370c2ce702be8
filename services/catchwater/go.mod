module github.com/catchwater/catchwater/services/catchwater

go 1.26.0

require (
	github.com/catchwater/catchwater/pkg v0.0.0
	github.com/catchwater/catchwater/proto v0.0.0
	github.com/catchwater/catchwater/services/ingress v0.0.0
	github.com/catchwater/catchwater/services/processor v0.0.0
	github.com/catchwater/catchwater/services/reconciler v0.0.0
	github.com/catchwater/catchwater/services/simulator v0.0.0
)

replace github.com/catchwater/catchwater/pkg => ../../pkg

replace github.com/catchwater/catchwater/proto => ../../proto

replace github.com/catchwater/catchwater/services/ingress => ../ingress

replace github.com/catchwater/catchwater/services/processor => ../processor

replace github.com/catchwater/catchwater/services/reconciler => ../reconciler

replace github.com/catchwater/catchwater/services/simulator => ../simulator
