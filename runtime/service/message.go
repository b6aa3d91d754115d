package service

import (
	"time"

	"shield/runtime/shield"
	"shield/runtime/value"

	lua "github.com/yuin/gopher-lua"
)

// kind says what a message asks a service to do.
type kind uint8

const (
	kindCall   kind = iota + 1 // somebody waits for the answer
	kindSend                   // nobody does
	kindClient                 // a client's frame
	kindNotice                 // a session was bound or is gone
	kindTimer
	kindFork
	kindTurn // Go code that wants to be inside: an eval, a hook
)

// counted says whether a message takes a place of max_mailbox. The others are
// bounded by limits of their own, or must not be refused.
func (k kind) counted() bool { return k <= kindClient }

// message is one thing for a service to do. It is kept by value in the mailbox;
// its payload belongs to the receiver from the moment it is posted.
type message struct {
	kind     kind
	method   string
	args     value.Payload
	sender   *shield.Handle // nil when no service sent it
	trace    shield.TraceID
	deadline int64 // clock; 0 = none
	at       int64 // clock, about when it began to wait in the mailbox; 0 = not at all, or not known
	// Who waits for a call: a handler parked in its own service, or anybody
	// else.
	wait *wait
	gen  uint64
	to   answerer

	*job // what calls and sends do without
}

// job is the part of a message that is not a call or send.
type job struct {
	fn     *lua.LFunction         // forks
	goFn   func(*GoContext) error // forks of Go services
	timer  *timer
	client shield.ClientRef
	route  string // of a client's frame, for errors
	notice *shield.Notice

	// kindTurn: a hook (hook names it), or Go code that runs as a turn.
	as     TurnKind
	hook   string
	reason string
	run    func(k *worker, t *Turn) *shield.Error
}

// answerer takes the answer to a call that no handler of this node waits for.
// It must not block. results belongs to it from then on.
type answerer interface {
	answer(from *Service, results *value.Payload, err *shield.Error)
}

// ring is a queue of messages that grows as it has to.
type ring struct {
	buf     []message // its length is a power of two
	head    int
	n       int
	counted int // of the n, those that count against max_mailbox
	stamped int64
	pushed  uint8
}

// stampEvery is how many messages share a time: reading the clock for each
// would make a send a quarter dearer.
const stampEvery = 32

// stamp notes when m began to wait.
func (r *ring) stamp(m *message, now func() int64) {
	if r.n == 0 || r.pushed%stampEvery == 0 {
		r.stamped = now()
	}
	r.pushed++
	m.at = r.stamped
}

// oldest is when the first message began to wait; 0 when none does.
func (r *ring) oldest() int64 {
	for i := range r.n {
		if at := r.at(i).at; at != 0 {
			return at
		}
	}
	return 0
}

const (
	ringMin  = 1  // most services never have more than one message waiting
	ringKeep = 64 // a ring longer than this is given up when it was empty for ringRest
	ringRest = int64(time.Second)
)

// push gives the place of a new message at the end. The caller fills it in.
func (r *ring) push(m *message) {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.buf[(r.head+r.n)&(len(r.buf)-1)] = *m
	r.n++
	if m.kind.counted() {
		r.counted++
	}
}

func (r *ring) grow() {
	size := max(2*len(r.buf), ringMin)
	buf := make([]message, size)
	for i := range r.n {
		buf[i] = r.buf[(r.head+i)&(len(r.buf)-1)]
	}
	r.buf, r.head = buf, 0
}

// pop moves the first message into m.
func (r *ring) pop(m *message) {
	at := &r.buf[r.head]
	*m = *at
	*at = message{}
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	if m.kind.counted() {
		r.counted--
	}
}

// big reports whether an idle service should give the ring up after a while: a
// burst must not be paid for ever, nor the ring grown anew for each.
func (r *ring) big() bool { return len(r.buf) > ringKeep }

// pushFront puts m before all others.
func (r *ring) pushFront(m *message) {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.head = (r.head - 1) & (len(r.buf) - 1)
	r.buf[r.head] = *m
	r.n++
	if m.kind.counted() {
		r.counted++
	}
}

// at is the message at place i, without taking it out.
func (r *ring) at(i int) *message { return &r.buf[(r.head+i)&(len(r.buf)-1)] }
