module linger.dev/go/strangers

go 1.21.0

require (
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
	linger.dev/go v0.0.0
)

replace linger.dev/go => ../
