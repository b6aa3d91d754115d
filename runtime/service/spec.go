package service

import (
	"time"

	"shield/runtime/shield"
)

// Policy says when an ended service is started again.
type Policy string

const (
	RestartAlways    Policy = "always"
	RestartOnFailure Policy = "on-failure" // the default
	RestartNever     Policy = "never"
)

// Restart is a service's restart policy. Zero fields mean default.
type Restart struct {
	Policy       Policy
	InitialDelay time.Duration // 1 s
	MaxDelay     time.Duration // 30 s
	Multiplier   float64       // 2
	// MaxRetries is how often in a row it is started again before it counts as
	// failed for good: 5 by default; negative means for ever.
	MaxRetries int
}

// Spec is one entry of the services block of shield.yaml: what Start starts and
// shield.spawn can start under Name.
type Spec struct {
	Name      shield.Name
	Script    string           // a path the World can load; empty for a Go service
	Go        func() GoService // makes one instance; nil for a Lua service
	Instances int              // 0 = only by spawn; 2 and more publish name.1, name.2, ...
	DependsOn []shield.Name
	Config    any // plain data (maps, slices, scalars): args.config of on_init
	Restart   Restart
	Limits    Limits
}
