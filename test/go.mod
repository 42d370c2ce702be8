module github.com/catchwater/catchwater/test

go 1.26.0

require (
	github.com/catchwater/catchwater/pkg v0.0.0
	github.com/catchwater/catchwater/proto v0.0.0
	github.com/catchwater/catchwater/services/catchwater v0.0.0
	github.com/catchwater/catchwater/services/ingress v0.0.0
	github.com/catchwater/catchwater/services/processor v0.0.0
	github.com/catchwater/catchwater/services/reconciler v0.0.0
	github.com/catchwater/catchwater/services/simulator v0.0.0
)

replace github.com/catchwater/catchwater/pkg => ../pkg

replace github.com/catchwater/catchwater/proto => ../proto

replace github.com/catchwater/catchwater/services/ingress => ../services/ingress

replace github.com/catchwater/catchwater/services/processor => ../services/processor

replace github.com/catchwater/catchwater/services/reconciler => ../services/reconciler

replace github.com/catchwater/catchwater/services/simulator => ../services/simulator

replace github.com/catchwater/catchwater/services/catchwater => ../services/catchwater
