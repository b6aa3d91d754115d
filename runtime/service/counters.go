package service

import "sync/atomic"

// Counters count what a runtime has seen since it was made.
type Counters struct {
	Calls            int64 `json:"calls"` // handled: calls, sends, clients' frames
	Errors           int64 `json:"errors"`
	Timeouts         int64 `json:"timeouts"` // calls that ended so
	LateReplies      int64 `json:"late_replies"`
	DeadLetters      int64 `json:"dead_letters"` // messages nobody took: a service that ended, a method that is not there
	Expired          int64 `json:"expired"`      // calls dropped before they ran: their deadline had passed
	HandlerMissing   int64 `json:"handler_missing"`
	DecodeErrors     int64 `json:"decode_errors"`
	MailboxFull      int64 `json:"mailbox_full"`
	CoroutineLimit   int64 `json:"coroutine_limit"`
	PendingCallLimit int64 `json:"pending_call_limit"`
	TimerLimit       int64 `json:"timer_limit"`
	ForkLimit        int64 `json:"fork_limit"`
	MessageTooLarge  int64 `json:"message_too_large"`
	HandlerTimeout   int64 `json:"handler_timeout"`
	MemoryLimit      int64 `json:"memory_limit"`
	StackOverflow    int64 `json:"stack_overflow"`
	Panics           int64 `json:"panics"` // of Go code inside a handler, contained
	Wedged           int64 `json:"wedged"`
	Started          int64 `json:"started"`
	Ended            int64 `json:"ended"`
	Restarts         int64 `json:"restarts"`
}

// counters are the same while they count.
type counters struct {
	errors, timeouts, lateReplies, deadLetters, expired, handlerMissing, decodeErrors atomic.Int64
	mailboxFull, coroutineLimit, pendingCallLimit, timerLimit, forkLimit              atomic.Int64
	messageTooLarge, handlerTimeout, memoryLimit, stackOverflow, panics, wedged       atomic.Int64
	started, ended, restarts                                                          atomic.Int64
}

// counts are those of one service.
type counts struct {
	calls    atomic.Int64
	errors   atomic.Int64
	restarts atomic.Int64
}

// Counters is a snapshot.
func (r *Runtime) Counters() Counters {
	c := &r.count
	n := Counters{
		Errors: c.errors.Load(), Timeouts: c.timeouts.Load(), LateReplies: c.lateReplies.Load(),
		DeadLetters: c.deadLetters.Load(), Expired: c.expired.Load(), HandlerMissing: c.handlerMissing.Load(),
		DecodeErrors: c.decodeErrors.Load(), MailboxFull: c.mailboxFull.Load(), CoroutineLimit: c.coroutineLimit.Load(),
		PendingCallLimit: c.pendingCallLimit.Load(), TimerLimit: c.timerLimit.Load(), ForkLimit: c.forkLimit.Load(),
		MessageTooLarge: c.messageTooLarge.Load(), HandlerTimeout: c.handlerTimeout.Load(), MemoryLimit: c.memoryLimit.Load(),
		StackOverflow: c.stackOverflow.Load(), Panics: c.panics.Load(), Wedged: c.wedged.Load(),
		Started: c.started.Load(), Ended: c.ended.Load(), Restarts: c.restarts.Load(),
	}
	n.Calls = r.reg.calls()
	return n
}
