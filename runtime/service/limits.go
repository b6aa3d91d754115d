package service

import "time"

// Limits bound what one service may use (DESIGN.md 2.3). Zero means default.
// Each has an error code and a counter of its own.
type Limits struct {
	MaxMailbox      int           // messages waiting; mailbox_full
	MaxCoroutines   int           // handlers and coroutines in flight; coroutine_limit
	MaxPendingCalls int           // replies awaited; pending_call_limit
	MaxTimers       int           // timers; timer_limit
	MaxForks        int           // forks in flight; fork_limit
	MaxMessageSize  int           // bytes of one message's values; message_too_large
	MaxHandler      time.Duration // running, not suspended; handler_timeout
	MaxMemory       int64         // bytes, an estimate; memory_limit
	MaxCallDepth    int           // Lua call frames; "stack overflow"
	MaxErrors       int           // consecutive, before on_panic(threshold)
	CallTimeout     time.Duration
	SpawnTimeout    time.Duration
}

// DefaultLimits are the ones a service has when nothing is configured.
func DefaultLimits() Limits {
	return Limits{
		MaxMailbox:      65536,
		MaxCoroutines:   1000,
		MaxPendingCalls: 1000,
		MaxTimers:       10000,
		MaxForks:        1000,
		MaxMessageSize:  1 << 20,
		MaxHandler:      5 * time.Second,
		MaxMemory:       64 << 20,
		MaxCallDepth:    200,
		MaxErrors:       10,
		CallTimeout:     5 * time.Second,
		SpawnTimeout:    10 * time.Second,
	}
}

// or fills what l leaves at zero from d.
func (l Limits) or(d Limits) Limits {
	fill(&l.MaxMailbox, d.MaxMailbox)
	fill(&l.MaxCoroutines, d.MaxCoroutines)
	fill(&l.MaxPendingCalls, d.MaxPendingCalls)
	fill(&l.MaxTimers, d.MaxTimers)
	fill(&l.MaxForks, d.MaxForks)
	fill(&l.MaxMessageSize, d.MaxMessageSize)
	fill(&l.MaxHandler, d.MaxHandler)
	fill(&l.MaxMemory, d.MaxMemory)
	fill(&l.MaxCallDepth, d.MaxCallDepth)
	fill(&l.MaxErrors, d.MaxErrors)
	fill(&l.CallTimeout, d.CallTimeout)
	fill(&l.SpawnTimeout, d.SpawnTimeout)
	return l
}

func fill[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
