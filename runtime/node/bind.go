package node

import (
	"sync"
	"time"

	"shield/runtime/shield"
	"shield/runtime/value"
)

// bindWaiter waits for another node's answer to a bind and calls done once:
// with the answer, or when the time is over.
type bindWaiter struct {
	mu    sync.Mutex
	done  func(shield.ClientRef, error)
	timer *time.Timer
}

// Done takes the answer.
func (w *bindWaiter) Done(result []byte, err *shield.Error) {
	if err != nil {
		w.finish(shield.ClientRef{}, err)
		return
	}
	var p value.Payload
	if bad := value.Decode(&p, result, 0); bad != nil {
		w.finish(shield.ClientRef{}, bad)
		return
	}
	ref, ok := value.AsClientRef(p.At(0))
	if !ok {
		w.finish(shield.ClientRef{}, shield.Errorf(shield.DecodeError, "the gateway's node answered a bind with something that is no client ref"))
		return
	}
	w.finish(ref, nil)
}

// expire calls over after d, unless the answer was there first.
func (w *bindWaiter) expire(d time.Duration, over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done != nil {
		w.timer = time.AfterFunc(d, over)
	}
}

func (w *bindWaiter) finish(ref shield.ClientRef, err error) {
	w.mu.Lock()
	done := w.done
	w.done = nil
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	if done != nil {
		done(ref, err)
	}
}
