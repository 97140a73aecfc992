module linger.dev/go

go 1.21
